// Every choice of a simulation comes from one of these, so that its seed repeats it.
#pragma once

#include <chrono>
#include <cstdint>
#include <random>

#include "common/base/clock.h"

namespace muster::testing {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}

  // True with this probability.
  bool Chance(double probability) {
    return static_cast<double>(engine_() >> 11) * 0x1.0p-53 < probability;
  }
  // From `low` to `high`, both included.
  uint64_t Between(uint64_t low, uint64_t high) { return low + engine_() % (high - low + 1); }
  Duration Between(Duration low, Duration high) {
    return low + Duration(static_cast<int64_t>(engine_() %
                                               static_cast<uint64_t>((high - low).count() + 1)));
  }
  uint64_t Next() { return engine_(); }

 private:
  std::mt19937_64 engine_;
};

}  // namespace muster::testing
