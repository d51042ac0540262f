#include "coordinator/trust/join_limits.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using Answer = JoinRate::Answer;
using std::chrono::seconds;

const TimePoint kStart{std::chrono::hours(1)};

TEST(JoinRate, AllowsSoManyAndTellsTheFirstRefusal) {
  JoinRate rate(3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(rate.Ask("10.0.0.1", kStart), Answer::kAllowed);
  EXPECT_EQ(rate.Ask("10.0.0.1", kStart), Answer::kRefusedFirst);
  EXPECT_EQ(rate.Ask("10.0.0.1", kStart), Answer::kRefused);
  EXPECT_EQ(rate.Ask("10.0.0.2", kStart), Answer::kAllowed);
}

TEST(JoinRate, FillsEvenly) {
  JoinRate rate(60);
  for (int i = 0; i < 60; ++i) EXPECT_EQ(rate.Ask("10.0.0.1", kStart), Answer::kAllowed);
  EXPECT_EQ(rate.Ask("10.0.0.1", kStart), Answer::kRefusedFirst);
  EXPECT_EQ(rate.Ask("10.0.0.1", kStart + seconds(1)), Answer::kAllowed);
  EXPECT_EQ(rate.Ask("10.0.0.1", kStart + seconds(1)), Answer::kRefusedFirst);
  // Never more than a minute's worth.
  int allowed = 0;
  while (rate.Ask("10.0.0.1", kStart + seconds(7200)) == Answer::kAllowed) ++allowed;
  EXPECT_EQ(allowed, 60);
}

TEST(JoinRate, CountsHalfAnIpv6AddressAsOne) {
  JoinRate rate(1);
  EXPECT_EQ(rate.Ask("2001:db8::1", kStart), Answer::kAllowed);
  EXPECT_EQ(rate.Ask("2001:db8::2", kStart), Answer::kRefusedFirst);
}

TEST(JoinRate, RemembersTheBusyWhenManyCome) {
  JoinRate rate(10);
  while (rate.Ask("10.0.0.1", kStart) == Answer::kAllowed) continue;
  for (size_t i = 0; i < 2 * JoinRate::kMaxAddresses; ++i) {
    rate.Ask(fmt::format("11.{}.{}.{}", i >> 16, i >> 8 & 255, i & 255), kStart);
  }
  EXPECT_EQ(rate.Ask("10.0.0.1", kStart), Answer::kRefused);
}

}  // namespace
}  // namespace muster
