// Time as the core sees it: two clocks behind one interface, so that tests and the simulation set
// it.
#pragma once

#include <chrono>

namespace muster {

// Steady time: for intervals, deadlines and leases. Never shown to people.
using TimePoint = std::chrono::steady_clock::time_point;
// Wall time: for display and for stamps that leave the process.
using WallTime = std::chrono::system_clock::time_point;
using Duration = std::chrono::nanoseconds;

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint Now() const = 0;
  virtual WallTime WallNow() const = 0;
};

// The machine's clocks. Thread-safe.
class SystemClock final : public Clock {
 public:
  TimePoint Now() const override { return std::chrono::steady_clock::now(); }
  WallTime WallNow() const override { return std::chrono::system_clock::now(); }
};

}  // namespace muster
