#include "agent/binding/topology.h"

#include <fmt/format.h>
#include <hwloc.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <type_traits>

namespace muster {
namespace {

struct DestroyTopology {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, DestroyTopology>;

struct FreeBitmap {
  void operator()(hwloc_bitmap_t bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<std::remove_pointer_t<hwloc_bitmap_t>, FreeBitmap>;

CpuList ListOf(hwloc_const_bitmap_t bits) {
  CpuList cpus;
  // A set without an end cannot be listed; none that was cut with a machine's is one.
  if (hwloc_bitmap_weight(bits) < 0) return cpus;
  for (int cpu = hwloc_bitmap_first(bits); cpu >= 0; cpu = hwloc_bitmap_next(bits, cpu)) {
    cpus.push_back(static_cast<uint32_t>(cpu));
  }
  return cpus;
}

absl::Status Failed(const std::string& what) {
  return absl::InternalError(fmt::format("{}: {}", what, std::strerror(errno)));
}

// What of the machine this process may use: by its control group and by its own affinity.
Bitmap AllowedCpus(hwloc_topology_t topology, bool this_machine) {
  Bitmap allowed(hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(topology)));
  if (!this_machine) return allowed;
  const Bitmap own(hwloc_bitmap_alloc());
  if (hwloc_get_cpubind(topology, own.get(), HWLOC_CPUBIND_THREAD) == 0) {
    hwloc_bitmap_and(allowed.get(), allowed.get(), own.get());
  }
  return allowed;
}

CpuList Within(hwloc_const_bitmap_t cpus, hwloc_const_bitmap_t allowed) {
  const Bitmap both(hwloc_bitmap_alloc());
  hwloc_bitmap_and(both.get(), cpus, allowed);
  return ListOf(both.get());
}

std::vector<NumaNodeFacts> NodesOf(hwloc_topology_t topology, hwloc_const_bitmap_t allowed) {
  std::vector<NumaNodeFacts> nodes;
  hwloc_obj_t node = nullptr;
  while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != nullptr) {
    if (node->os_index == HWLOC_UNKNOWN_INDEX) continue;
    nodes.push_back({static_cast<int32_t>(node->os_index), Within(node->cpuset, allowed)});
  }
  // Where processors have fast memory beside the ordinary one, that is another node of a higher
  // number.
  std::sort(nodes.begin(), nodes.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  return nodes;
}

int32_t NodeOf(const CpuList& cpus, const std::vector<NumaNodeFacts>& nodes) {
  for (const NumaNodeFacts& node : nodes) {
    if (std::binary_search(node.cpus.begin(), node.cpus.end(), cpus.front())) return node.number;
  }
  return -1;
}

TopologyFacts FactsOf(hwloc_topology_t topology, bool this_machine) {
  const Bitmap allowed = AllowedCpus(topology, this_machine);
  TopologyFacts facts;
  facts.nodes = NodesOf(topology, allowed.get());
  // Some virtual machines know no cores.
  const hwloc_obj_type_t type =
      hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  hwloc_obj_t core = nullptr;
  while ((core = hwloc_get_next_obj_by_type(topology, type, core)) != nullptr) {
    CpuList cpus = Within(core->cpuset, allowed.get());
    if (cpus.empty()) continue;
    const int32_t node = NodeOf(cpus, facts.nodes);
    facts.cores.push_back({std::move(cpus), node});
  }
  return facts;
}

}  // namespace

void KeepTopologyPlain() {
  // Nothing is there. Without memory for it the plugins are loaded, which is no reason to end.
  (void)::setenv("HWLOC_PLUGINS_PATH", "/dev/null/none", 1);
}

absl::StatusOr<TopologyFacts> LoadTopology(const std::string& root) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return Failed("hwloc cannot begin");
  const Topology topology(raw);
  const std::string file = root + "/topology.xml";
  const bool from_file = !root.empty() && ::access(file.c_str(), F_OK) == 0;
  if (from_file && hwloc_topology_set_xml(raw, file.c_str()) != 0) {
    return absl::InvalidArgumentError(
        fmt::format("{} cannot be read as a topology (as `lstopo {}` writes it)", file, file));
  }
  if (hwloc_topology_load(raw) != 0) {
    return Failed(from_file ? fmt::format("{} cannot be read as a topology", file)
                            : "the topology of the processors cannot be read");
  }
  TopologyFacts facts = FactsOf(raw, !from_file && hwloc_topology_is_thissystem(raw) != 0);
  if (facts.cores.empty()) {
    return absl::InternalError("the topology has no processor that the agent may use");
  }
  return facts;
}

absl::StatusOr<TopologyFacts> LazyTopology::Get() {
  const MutexLock lock(mutex_);
  if (facts_) return *facts_;
  absl::StatusOr<TopologyFacts> loaded = LoadTopology(root_);
  if (loaded.ok()) facts_ = *loaded;
  return loaded;
}

}  // namespace muster
