// Waits between attempts to connect: exponential with jitter, so that a thousand agents that lost
// their coordinator at once do not come back at once. Pure but for its random generator; one owner.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>

namespace muster {

class Backoff {
 public:
  struct Options {
    std::chrono::milliseconds first{200};
    std::chrono::milliseconds most{5000};
  };

  Backoff(Options options, uint64_t seed) : options_(options), random_(seed) {}

  // How long to wait before the next attempt: between half and all of a step that doubles every
  // time.
  std::chrono::milliseconds Next() {
    step_ = step_.count() == 0 ? options_.first : std::min(step_ * 2, options_.most);
    std::uniform_int_distribution<int64_t> pick(step_.count() / 2, step_.count());
    return std::chrono::milliseconds(pick(random_));
  }

  // The peer answered: the next wait is short again.
  void Reset() { step_ = std::chrono::milliseconds(0); }

 private:
  const Options options_;
  std::chrono::milliseconds step_{0};
  std::mt19937_64 random_;
};

}  // namespace muster
