// Passes the core's word that the logs of a job may have changed on to those who read them. Lives
// on the loop.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <vector>

#include "common/base/ids.h"
#include "coordinator/core/coordinator_core.h"

namespace muster {

class JobLogListener {
 public:
  virtual ~JobLogListener() = default;
  // RankLogState, attempts or the end of the job may have changed. Must not add or remove
  // listeners.
  virtual void OnJobLogsChanged() = 0;
};

class LogReaderHub {
 public:
  // Takes the one log listener of the core. The core must not run any more when this object goes.
  void Attach(CoordinatorCore& core) {
    core.SetLogListener([this](const JobId& job) {
      const auto found = listeners_.find(job);
      if (found == listeners_.end()) return;
      for (JobLogListener* listener : found->second) listener->OnJobLogsChanged();
    });
  }
  void Add(const JobId& job, JobLogListener* listener) { listeners_[job].push_back(listener); }
  void Remove(const JobId& job, JobLogListener* listener) {
    const auto found = listeners_.find(job);
    if (found == listeners_.end()) return;
    std::erase(found->second, listener);
    if (found->second.empty()) listeners_.erase(found);
  }

 private:
  absl::flat_hash_map<JobId, std::vector<JobLogListener*>> listeners_;
};

}  // namespace muster
