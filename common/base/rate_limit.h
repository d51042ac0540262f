// Lets some through and holds back the rest: for what others can cause as often as they like, such
// as lines of a log. Thread-safe.
#pragma once

#include <cstdint>
#include <utility>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace muster {

class RateLimit {
 public:
  // So many in each span of `per`, which begins with the first.
  RateLimit(uint64_t most, Duration per) : most_(most), per_(per) {}

  bool Allows(TimePoint now) {
    MutexLock lock(mutex_);
    if (!begun_ || now - began_at_ >= per_) {
      begun_ = true;
      began_at_ = now;
      count_ = 0;
    }
    if (count_ >= most_) {
      ++held_back_;
      return false;
    }
    ++count_;
    return true;
  }
  // How many were held back since it was asked last.
  uint64_t TakeHeldBack() {
    MutexLock lock(mutex_);
    return std::exchange(held_back_, 0);
  }

 private:
  const uint64_t most_;
  const Duration per_;
  Mutex mutex_;
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;
  TimePoint began_at_ ABSL_GUARDED_BY(mutex_);
  uint64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t held_back_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace muster
