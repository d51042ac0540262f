// Tells a rank that hangs from one that works: one that hangs writes nothing and uses no processor
// time. A rank that is busy without a word, as all but the first usually are, does not hang. Pure.
#pragma once

#include <cstdint>

#include "agent/shim/poller.h"

namespace muster::shim {

class StallWatch {
 public:
  struct Sample {
    // Bytes of output so far.
    uint64_t output_bytes = 0;
    // Processor time of the rank and what it started, in the ticks of /proc: 100 in a second on
    // every processor this is built for (USER_HZ). May fall when one of
    // these ends.
    uint64_t cpu_ticks = 0;
  };
  enum class Change { kNone, kStalled, kResumed };

  // `begin`: when the rank was started. `after`: time without a sign of life that is a stall.
  StallWatch(SteadyTime begin, milliseconds after)
      : after_(after), looked_(begin), active_(begin) {}

  // Time between two looks for a stall of `after`: it is found so much later at most.
  static milliseconds Interval(milliseconds after);

  // Takes what was seen at `now`.
  Change Look(SteadyTime now, const Sample& sample);

  // How long the rank has shown no sign of life, or with kResumed had shown none, at the last look.
  milliseconds silence() const { return silence_; }

 private:
  milliseconds after_;
  SteadyTime looked_;
  // Last look at which there was a sign of life.
  SteadyTime active_;
  Sample last_;
  milliseconds silence_{0};
  bool stalled_ = false;
};

}  // namespace muster::shim
