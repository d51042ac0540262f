#include "agent/supervise/container_sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ParseContainerSweep, ReadsHowManyWereKilledAndWhatIsLeft) {
  ContainerSweep sweep;
  ASSERT_TRUE(ParseContainerSweep("killed 3\n", sweep));
  EXPECT_EQ(sweep.killed, 3u);
  EXPECT_THAT(sweep.left, IsEmpty());
  ASSERT_TRUE(ParseContainerSweep("killed 0\na is left\nb is left\n", sweep));
  EXPECT_THAT(sweep.left, ElementsAre("a is left", "b is left"));
}

TEST(ParseContainerSweep, TakesNothingThatIsNotWhole) {
  for (const char* text : {"", "killed 3", "killed\n", "killed x\n", "killed 1 2\n", "left\n"}) {
    ContainerSweep sweep;
    EXPECT_FALSE(ParseContainerSweep(text, sweep)) << text;
  }
}

}  // namespace
}  // namespace muster
