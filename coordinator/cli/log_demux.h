// Turns pieces of many ranks' frame files, as ReadLogs streams them, into frames per rank. Owns the
// beginnings of frames that are not complete yet. Holes that follow each other reach the sink as
// one gap, so that a long outage is one line to read. For one thread at a time; does no I/O.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>

#include "common/io/log_frame.h"
#include "coordinator/logs/hole_merger.h"
#include "muster/v1/job.pb.h"

namespace muster {

// Hears what the pieces hold.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  // A frame of `rank`, no hole; its payload is valid during the call.
  virtual void OnFrame(uint32_t rank, const Frame& frame) = 0;
  // Nothing more of the rank comes. `missing_bytes` of its file existed and never arrived.
  virtual void OnRankEnd(uint32_t rank, uint64_t missing_bytes) = 0;
  // The rest of the rank's file, from `offset` on, is not made of frames and is left out.
  virtual void OnDamage(uint32_t rank, uint64_t offset) = 0;
  // A new attempt of the job begins for the rank; what was held of the old one is gone.
  virtual void OnNewAttempt(uint32_t rank) = 0;
};

class LogDemux {
 public:
  explicit LogDemux(FrameSink& sink) : sink_(sink) {}

  void Take(const v1::ReadLogsResponse& piece);

 private:
  struct Source {
    uint32_t attempt = 0;
    FrameReader reader;
    bool damaged = false;
    // Holes that the sink was not told of yet.
    HoleMerger holes;
  };

  void TakeFrames(uint32_t rank, Source& source);
  void TellHole(uint32_t rank, Source& source);

  FrameSink& sink_;
  absl::flat_hash_map<uint32_t, Source> sources_;
};

}  // namespace muster
