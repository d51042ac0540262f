// The processors of a machine as ranks can be placed on them: cores with their hardware threads,
// and NUMA nodes. Loading blocks for tens of milliseconds and is for a thread of its own;
// everything else here is plain values. It never changes anything.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/cpu_list.h"
#include "common/base/mutex.h"

namespace muster {

// One physical core.
struct CoreFacts {
  // Its hardware threads.
  CpuList cpus;
  // NUMA node that it belongs to; -1: none.
  int32_t numa_node = -1;
};

// One NUMA node.
struct NumaNodeFacts {
  int32_t number = 0;
  CpuList cpus;
};

// Only what this process may use and what is online.
struct TopologyFacts {
  // Neighbours are near each other.
  std::vector<CoreFacts> cores;
  std::vector<NumaNodeFacts> nodes;
};

// Keeps hwloc from loading plugins, which bring graphics and OpenCL libraries into the process and
// know nothing that is wanted here. Changes the environment: once, before there are threads, and
// after the environment was read for others.
void KeepTopologyPlain();

// Loads the topology of `root`/topology.xml, as lstopo exports it, when `root` is not empty and has
// that file; else that of this machine, less what the calling thread may not run on. INTERNAL or
// INVALID_ARGUMENT: it cannot be read.
absl::StatusOr<TopologyFacts> LoadTopology(const std::string& root);

// Loads it once, when it is first wanted. Thread-safe.
class LazyTopology {
 public:
  explicit LazyTopology(std::string root) : root_(std::move(root)) {}

  // What LoadTopology said; after a failure it is tried again. Blocks.
  absl::StatusOr<TopologyFacts> Get() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const std::string root_;
  Mutex mutex_;
  std::optional<TopologyFacts> facts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster
