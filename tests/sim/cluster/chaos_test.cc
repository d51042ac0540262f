// Many seeded runs of a whole cluster. A failure prints how to repeat it:
//   MUSTER_SIM_SEED=N    runs this seed only, MUSTER_SIM_SEEDS=N runs seeds 1 to N,
//   MUSTER_SIM_FIRST=N   begins there instead.
#include "tests/sim/cluster/chaos.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace muster::testing {
namespace {

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(ClusterSimulation, KeepsItsInvariantsUnderEverySeed) {
  const uint64_t only = FromEnvironment("MUSTER_SIM_SEED", 0);
  const uint64_t first = only != 0 ? only : FromEnvironment("MUSTER_SIM_FIRST", 1);
  const uint64_t count = only != 0 ? 1 : FromEnvironment("MUSTER_SIM_SEEDS", 1000);
  ChaosResult sum;
  int failures = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const ChaosResult result = RunChaos(seed);
    sum.jobs += result.jobs;
    sum.succeeded += result.succeeded;
    sum.failed += result.failed;
    sum.cancelled += result.cancelled;
    sum.attempts += result.attempts;
    sum.faults += result.faults;
    sum.virtual_seconds += result.virtual_seconds;
    if (!result.violation) continue;
    ADD_FAILURE() << "seed " << seed << ": " << *result.violation << "\n"
                  << (only != 0 || failures == 0 ? result.trace : std::string())
                  << "repeat: MUSTER_SIM_SEED=" << seed << " sim_tests";
    if (++failures == 20) break;
  }
  std::printf("%s\n", fmt::format("{} seeds: {} jobs ({} succeeded, {} failed, {} cancelled), {} "
                                  "attempts, {} faults, {:.0f} virtual seconds",
                                  count, sum.jobs, sum.succeeded, sum.failed, sum.cancelled,
                                  sum.attempts, sum.faults, sum.virtual_seconds)
                          .c_str());
}

TEST(ClusterSimulation, IsDeterministic) {
  const ChaosResult once = RunChaos(7);
  const ChaosResult again = RunChaos(7);
  EXPECT_EQ(once.virtual_seconds, again.virtual_seconds);
  EXPECT_EQ(once.attempts, again.attempts);
  EXPECT_EQ(once.faults, again.faults);
}

}  // namespace
}  // namespace muster::testing
