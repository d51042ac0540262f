#include "agent/session/backoff.h"

#include <gtest/gtest.h>

#include <set>

namespace muster {
namespace {

using std::chrono::milliseconds;

TEST(Backoff, DoublesUpToItsLimitWithJitter) {
  Backoff backoff({milliseconds(200), milliseconds(5000)}, 1);
  milliseconds step{200};
  for (int i = 0; i < 20; ++i) {
    const milliseconds wait = backoff.Next();
    EXPECT_GE(wait, step / 2) << i;
    EXPECT_LE(wait, step) << i;
    step = std::min(step * 2, milliseconds(5000));
  }
}

TEST(Backoff, IsShortAgainAfterReset) {
  Backoff backoff({milliseconds(200), milliseconds(5000)}, 1);
  for (int i = 0; i < 10; ++i) backoff.Next();
  backoff.Reset();
  EXPECT_LE(backoff.Next(), milliseconds(200));
}

TEST(Backoff, SpreadsAgents) {
  std::set<milliseconds> waits;
  for (uint64_t seed = 0; seed < 100; ++seed) waits.insert(Backoff({}, seed).Next());
  EXPECT_GT(waits.size(), 30u);
}

}  // namespace
}  // namespace muster
