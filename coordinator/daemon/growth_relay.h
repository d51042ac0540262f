// Tells the core, on the loop, how much of the logs is stored. Growth comes from the writing thread
// in bursts; what gathers while the loop is busy is told as one, the newest size of each file.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <memory>
#include <utility>

#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "coordinator/core/coordinator_core.h"
#include "coordinator/logs/log_store.h"

namespace muster {

// Thread-safe. `core` must live until the loop has run what was posted.
class GrowthRelay final : public LogListener, public std::enable_shared_from_this<GrowthRelay> {
 public:
  GrowthRelay(Executor& loop, CoordinatorCore& core) : loop_(loop), core_(core) {}

  void OnLogGrowth(const StoredLogId& file, uint64_t committed) override {
    {
      MutexLock lock(mutex_);
      sizes_[file] = committed;
      if (std::exchange(posted_, true)) return;
    }
    loop_.Post([self = shared_from_this()] { self->Tell(); });
  }

 private:
  void Tell() {
    absl::flat_hash_map<StoredLogId, uint64_t> sizes;
    {
      MutexLock lock(mutex_);
      sizes.swap(sizes_);
      posted_ = false;
    }
    for (const auto& [file, size] : sizes) core_.OnLogCommitted(file.attempt, file.rank, size);
  }

  Executor& loop_;
  CoordinatorCore& core_;
  Mutex mutex_;
  absl::flat_hash_map<StoredLogId, uint64_t> sizes_ ABSL_GUARDED_BY(mutex_);
  bool posted_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace muster
