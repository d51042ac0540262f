#include "common/base/line_budget.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(LineBudget, TakesABurstAndThenSoManyASecond) {
  LineBudget budget(3, 2);
  TimePoint now{seconds(1000)};
  uint64_t left_out = 7;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(budget.Take(now, left_out));
    EXPECT_EQ(left_out, 0u);
  }
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(budget.Take(now, left_out));
  now += milliseconds(499);
  EXPECT_FALSE(budget.Take(now, left_out));
  now += milliseconds(2);
  EXPECT_TRUE(budget.Take(now, left_out));
  EXPECT_EQ(left_out, 6u);
  now += seconds(3600);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(budget.Take(now, left_out));
  EXPECT_FALSE(budget.Take(now, left_out)) << "it does not hold more";
}

TEST(LineBudget, AClockThatStandsStillGivesNothing) {
  LineBudget budget(1, 1000);
  const TimePoint now{seconds(5)};
  uint64_t left_out = 0;
  EXPECT_TRUE(budget.Take(now, left_out));
  EXPECT_FALSE(budget.Take(now, left_out));
  EXPECT_FALSE(budget.Take(now - seconds(1), left_out));
}

}  // namespace
}  // namespace muster
