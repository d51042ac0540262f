#include "agent/shim/stall_watch.h"

#include <algorithm>
#include <utility>

namespace muster::shim {
namespace {

constexpr milliseconds kLeastInterval{50};
constexpr milliseconds kMostInterval{5000};
constexpr int64_t kTickMs = 10;
// Watchdogs and heartbeats of libraries run on in a rank that hangs: less than one part in a
// hundred of one processor is no work.
constexpr int64_t kWorkPart = 100;

}  // namespace

milliseconds StallWatch::Interval(milliseconds after) {
  return std::clamp(after / 4, kLeastInterval, kMostInterval);
}

StallWatch::Change StallWatch::Look(SteadyTime now, const Sample& sample) {
  const auto elapsed = std::chrono::duration_cast<milliseconds>(now - std::exchange(looked_, now));
  // Time in which nobody looked, because the rank was frozen and the shim with it, is no silence.
  active_ += std::max(elapsed - 2 * Interval(after_), milliseconds(0));
  const Sample before = std::exchange(last_, sample);
  const uint64_t ticks =
      std::max(sample.cpu_ticks, before.cpu_ticks) - std::min(sample.cpu_ticks, before.cpu_ticks);
  const bool works =
      ticks > 0 && static_cast<int64_t>(ticks) * kTickMs * kWorkPart >= elapsed.count();
  silence_ = std::chrono::duration_cast<milliseconds>(now - active_);
  if (works || sample.output_bytes != before.output_bytes) {
    active_ = now;
    return std::exchange(stalled_, false) ? Change::kResumed : Change::kNone;
  }
  if (silence_ < after_ || std::exchange(stalled_, true)) return Change::kNone;
  return Change::kStalled;
}

}  // namespace muster::shim
