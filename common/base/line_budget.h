// Limits how many lines of one kind are logged, where somebody outside can cause any number of
// them. A bucket that holds `burst` lines and fills evenly. Thread-safe.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace muster {

class LineBudget {
 public:
  LineBudget(double burst, double per_second)
      : burst_(burst), per_second_(per_second), left_(burst) {}

  // True: the line may be written. `left_out` becomes the number of lines that were not, since one
  // was.
  bool Take(TimePoint now, uint64_t& left_out) {
    MutexLock lock(mutex_);
    const std::chrono::duration<double> passed =
        now - std::exchange(filled_at_, std::max(filled_at_, now));
    left_ = std::min(burst_, left_ + std::max(passed.count(), 0.0) * per_second_);
    if (left_ < 1) {
      ++left_out_;
      return false;
    }
    left_ -= 1;
    left_out = std::exchange(left_out_, 0);
    return true;
  }

 private:
  const double burst_;
  const double per_second_;
  Mutex mutex_;
  double left_ ABSL_GUARDED_BY(mutex_);
  TimePoint filled_at_ ABSL_GUARDED_BY(mutex_) = {};
  uint64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace muster
