// One seeded run: random jobs, random faults, then peace, and the demand that everything ends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace muster::testing {

struct ChaosResult {
  // What went wrong; nothing when all was well.
  std::optional<std::string> violation;
  std::string trace;
  // For an impression of what a run covers.
  int jobs = 0;
  int succeeded = 0;
  int failed = 0;
  int cancelled = 0;
  int attempts = 0;
  int faults = 0;
  double virtual_seconds = 0;
};

// Runs the seed. Deterministic.
ChaosResult RunChaos(uint64_t seed);

}  // namespace muster::testing
