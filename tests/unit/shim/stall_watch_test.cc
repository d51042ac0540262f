#include "agent/shim/stall_watch.h"

#include <gtest/gtest.h>

namespace muster::shim {
namespace {

using Change = StallWatch::Change;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr SteadyTime kBegin{};

class StallWatchTest : public ::testing::Test {
 protected:
  // One look, 5 s after the last; with `ticks` more processor time and `bytes` more output.
  Change Look(int64_t ticks, uint64_t bytes = 0) {
    now_ += seconds(5);
    sample_.cpu_ticks += static_cast<uint64_t>(ticks);
    sample_.output_bytes += bytes;
    return watch_.Look(now_, sample_);
  }
  // Looks without a sign of life for a minute but for the last one.
  void BeSilent() {
    for (int i = 0; i < 11; ++i) EXPECT_EQ(Look(0), Change::kNone) << i;
  }

  SteadyTime now_ = kBegin;
  StallWatch::Sample sample_;
  StallWatch watch_{kBegin, minutes(1)};
};

TEST_F(StallWatchTest, TellsARankThatDoesNothingFromTheStartOnce) {
  BeSilent();
  EXPECT_EQ(Look(0), Change::kStalled);
  EXPECT_EQ(watch_.silence(), minutes(1));
  EXPECT_EQ(Look(0), Change::kNone) << "once";
}

TEST_F(StallWatchTest, OutputIsASignOfLife) {
  BeSilent();
  EXPECT_EQ(Look(0, 1), Change::kNone);
  BeSilent();
  EXPECT_EQ(Look(0), Change::kStalled);
  EXPECT_EQ(Look(0, 1), Change::kResumed);
  EXPECT_EQ(watch_.silence(), seconds(65));
  BeSilent();
  EXPECT_EQ(Look(0), Change::kStalled) << "again";
}

TEST_F(StallWatchTest, ABusyRankWithoutAWordWorks) {
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Look(500), Change::kNone);
  // A hundredth of a processor is the least that counts.
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Look(5), Change::kNone);
}

TEST_F(StallWatchTest, HeartbeatsOfLibrariesAreNoWork) {
  for (int i = 0; i < 11; ++i) EXPECT_EQ(Look(4), Change::kNone);
  EXPECT_EQ(Look(4), Change::kStalled);
  EXPECT_EQ(Look(500), Change::kResumed);
}

TEST_F(StallWatchTest, TheEndOfAChildIsASignOfLife) {
  EXPECT_EQ(Look(1000), Change::kNone);
  BeSilent();
  EXPECT_EQ(Look(-900), Change::kNone);
  EXPECT_EQ(Look(0), Change::kNone);
}

TEST_F(StallWatchTest, TimeInWhichNobodyCouldLookIsNoSilence) {
  EXPECT_EQ(Look(0), Change::kNone);
  now_ += std::chrono::hours(1);
  EXPECT_EQ(Look(0), Change::kNone) << "frozen, and the shim with it";
  EXPECT_EQ(watch_.silence(), seconds(15));
  for (int i = 0; i < 8; ++i) EXPECT_EQ(Look(0), Change::kNone) << i;
  EXPECT_EQ(Look(0), Change::kStalled);
}

TEST_F(StallWatchTest, LooksOftenEnough) {
  EXPECT_EQ(StallWatch::Interval(minutes(15)), seconds(5));
  EXPECT_EQ(StallWatch::Interval(seconds(2)), std::chrono::milliseconds(500));
  EXPECT_EQ(StallWatch::Interval(std::chrono::milliseconds(1)), std::chrono::milliseconds(50));
}

}  // namespace
}  // namespace muster::shim
