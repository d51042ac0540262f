#include "common/base/rate_limit.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

using std::chrono::seconds;

TEST(RateLimit, HoldsBackWhatIsTooMuchAndCountsIt) {
  RateLimit limit(2, seconds(10));
  const TimePoint begin{seconds(100)};
  EXPECT_TRUE(limit.Allows(begin));
  EXPECT_TRUE(limit.Allows(begin + seconds(1)));
  EXPECT_FALSE(limit.Allows(begin + seconds(2)));
  EXPECT_FALSE(limit.Allows(begin + seconds(9)));
  EXPECT_TRUE(limit.Allows(begin + seconds(10)));
  EXPECT_EQ(limit.TakeHeldBack(), 2u);
  EXPECT_EQ(limit.TakeHeldBack(), 0u);
  EXPECT_TRUE(limit.Allows(begin + seconds(11)));
  EXPECT_FALSE(limit.Allows(begin + seconds(12)));
}

}  // namespace
}  // namespace muster
