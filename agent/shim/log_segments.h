// What RankLog knows of the frames that may still be dropped: runs of whole frames, called
// segments, and where holes are. Values only, no I/O. Single-threaded. Memory: one entry for each
// segment that is neither committed nor dropped, and one for each run of holes.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "common/io/log_frame.h"

namespace muster::shim {

// Frames that follow each other in the file.
struct LogSegment {
  // Where the first frame begins.
  uint64_t begin = 0;
  // Length with the headers.
  uint32_t bytes = 0;
  // Payload of output frames.
  uint32_t stdout_bytes = 0;
  uint32_t stderr_bytes = 0;
  // What gap frames among them say.
  FrameGap gap;
  // Time of the last frame.
  int64_t time_ns = 0;
};

class LogSegments {
 public:
  // A segment can become one frame, so it is no longer than one.
  static constexpr uint64_t kMostBytes = kFrameHeaderBytes + kMaxFramePayloadBytes;
  // Header and counters of a hole: a shorter segment cannot become one.
  static constexpr uint64_t kLeastBytes = kFrameHeaderBytes + kFrameCountersBytes;

  // Segments are about `bytes` long, within the two bounds.
  void SetSegmentBytes(uint64_t bytes);

  // Adds the next frame of the file; `frame.bytes` with its header. It begins a segment or belongs
  // to the last one.
  void Add(const LogSegment& frame);

  // Forgets what begins before `offset`: it may not be dropped any more.
  void Forget(uint64_t offset);

  // Removes and returns the oldest segment that can become a hole; with `last` even the one that
  // frames are being added to. Shorter ones that are in the way stay in the file for good.
  std::optional<LogSegment> TakeOldest(bool last);

  size_t size() const { return segments_.size(); }

 private:
  uint64_t segment_bytes_ = kMostBytes;
  std::deque<LogSegment> segments_;
};

// Where holes are, and what they have given back.
class LogHoles {
 public:
  // A segment became a hole; holes are added in the order of the file.
  void Add(const LogSegment& segment);
  // Forgets holes that end at or before `offset`.
  void Forget(uint64_t offset);
  // Bytes behind `offset` that holes do not need any more.
  uint64_t SavedBehind(uint64_t offset) const;
  // A hole was ever added.
  bool any() const { return any_; }

 private:
  // Holes without anything between them.
  struct Run {
    uint64_t begin = 0;
    uint64_t end = 0;
    // Bytes of their headers and counters.
    uint64_t kept_bytes = 0;
  };

  std::deque<Run> runs_;
  // Over all runs.
  uint64_t saved_bytes_ = 0;
  bool any_ = false;
};

}  // namespace muster::shim
