// Makes one gap of holes that follow each other, so that a long outage is one line to read. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "common/io/log_frame.h"

namespace muster {

class HoleMerger {
 public:
  struct Hole {
    FrameGap dropped;
    // Time of the last of them.
    int64_t time_ns = 0;
  };

  // Takes a frame and says whether it was a hole.
  bool Take(const Frame& frame) {
    if (frame.kind != FrameKind::kHole) return false;
    const FrameGap dropped = DroppedBy(frame).value_or(FrameGap());
    hole_.dropped.stdout_bytes += dropped.stdout_bytes;
    hole_.dropped.stderr_bytes += dropped.stderr_bytes;
    hole_.time_ns = frame.time_ns;
    return true;
  }

  // The holes since the last call, when something was lost in them. To be asked for before anything
  // that is no hole.
  std::optional<Hole> Tell() {
    const Hole hole = std::exchange(hole_, {});
    return hole.dropped == FrameGap() ? std::nullopt : std::optional(hole);
  }

 private:
  Hole hole_;
};

}  // namespace muster
