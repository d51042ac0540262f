// The trust of a cluster as it is at the moment: certificates are renewed and authorities change
// while the coordinator runs. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "common/base/mutex.h"
#include "coordinator/trust/trust_directory.h"

namespace muster {

class LiveTrust {
 public:
  explicit LiveTrust(Trust trust) : trust_(std::make_shared<const Trust>(std::move(trust))) {}

  // To be used for one decision, and asked for again for the next.
  std::shared_ptr<const Trust> Get() const {
    MutexLock lock(mutex_);
    return trust_;
  }
  void Set(Trust trust) {
    auto next = std::make_shared<const Trust>(std::move(trust));
    MutexLock lock(mutex_);
    trust_ = std::move(next);
    ++version_;
  }
  // Grows with every Set.
  uint64_t version() const {
    MutexLock lock(mutex_);
    return version_;
  }

 private:
  mutable Mutex mutex_;
  std::shared_ptr<const Trust> trust_ ABSL_GUARDED_BY(mutex_);
  uint64_t version_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace muster
