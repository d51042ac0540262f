// Watches of jobs: who wants to hear of changes, and up to where each has heard. Nothing queues up:
// a watcher that takes its time gets the newest state with what changed since, in one update. Lives
// on the loop thread.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "coordinator/core/coordinator_core.h"
#include "coordinator/core/job_index.h"
#include "coordinator/core/node_table.h"

namespace muster {

class WatchHub {
 public:
  explicit WatchHub(const NodeTable& nodes) : nodes_(nodes) {}

  WatchHandle Add(JobEntry& entry, JobWatcher* watcher);
  void Remove(WatchHandle handle);
  // See CoordinatorCore::TakeUpdate. Nothing while the job is being stored.
  std::optional<JobUpdate> Take(WatchHandle handle);
  // Calls the watchers of a job for which there is something and who were not called yet.
  void Notify(JobEntry& entry);

 private:
  struct Watch {
    JobEntry* entry = nullptr;
    JobWatcher* watcher = nullptr;
    bool first = true;
    bool notified = false;
    // Up to where it has heard.
    uint64_t revision = 0;
    uint64_t volatile_revision = 0;

    bool HasNews() const {
      return first || entry->record.revision > revision ||
             entry->volatile_revision > volatile_revision;
    }
  };

  const NodeTable& nodes_;
  uint64_t last_handle_ = 0;
  // Ordered, so that watchers are called in the order in which they came.
  std::map<WatchHandle, Watch> watches_;
  absl::flat_hash_map<const JobEntry*, std::vector<WatchHandle>> by_job_;
};

}  // namespace muster
