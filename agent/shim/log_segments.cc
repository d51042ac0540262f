#include "agent/shim/log_segments.h"

#include <algorithm>
#include <utility>

namespace muster::shim {

void LogSegments::SetSegmentBytes(uint64_t bytes) {
  segment_bytes_ = std::clamp(bytes, kLeastBytes, kMostBytes);
}

void LogSegments::Add(const LogSegment& frame) {
  if (!segments_.empty()) {
    LogSegment& last = segments_.back();
    const uint64_t together = uint64_t{last.bytes} + frame.bytes;
    const bool follows = last.begin + last.bytes == frame.begin;
    if (follows &&
        (together <= segment_bytes_ || (last.bytes < kLeastBytes && together <= kMostBytes))) {
      last.bytes = static_cast<uint32_t>(together);
      last.stdout_bytes += frame.stdout_bytes;
      last.stderr_bytes += frame.stderr_bytes;
      last.gap.stdout_bytes += frame.gap.stdout_bytes;
      last.gap.stderr_bytes += frame.gap.stderr_bytes;
      last.time_ns = frame.time_ns;
      return;
    }
  }
  segments_.push_back(frame);
}

void LogSegments::Forget(uint64_t offset) {
  while (!segments_.empty() && segments_.front().begin < offset) segments_.pop_front();
}

std::optional<LogSegment> LogSegments::TakeOldest(bool last) {
  const size_t least = last ? 1 : 2;
  while (segments_.size() >= least) {
    const LogSegment oldest = segments_.front();
    // More frames may come to it.
    if (segments_.size() == 1 && oldest.bytes < kLeastBytes) break;
    segments_.pop_front();
    if (oldest.bytes >= kLeastBytes) return oldest;
  }
  return std::nullopt;
}

void LogHoles::Add(const LogSegment& segment) {
  any_ = true;
  if (runs_.empty() || runs_.back().end != segment.begin) {
    runs_.push_back({segment.begin, segment.begin, 0});
  }
  runs_.back().end += segment.bytes;
  runs_.back().kept_bytes += LogSegments::kLeastBytes;
  saved_bytes_ += segment.bytes - LogSegments::kLeastBytes;
}

void LogHoles::Forget(uint64_t offset) {
  while (!runs_.empty() && runs_.front().end <= offset) {
    const Run& run = runs_.front();
    saved_bytes_ -= run.end - run.begin - run.kept_bytes;
    runs_.pop_front();
  }
}

uint64_t LogHoles::SavedBehind(uint64_t offset) const {
  uint64_t saved = saved_bytes_;
  for (const Run& run : runs_) {
    if (run.begin >= offset) break;
    const uint64_t behind = run.end - std::min(run.end, offset);
    // How many of the run's holes are behind it is not known: as if all were.
    saved -= run.end - run.begin - run.kept_bytes;
    saved += behind - std::min(behind, run.kept_bytes);
  }
  return saved;
}

}  // namespace muster::shim
