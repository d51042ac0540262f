// Ranks that hang, and a real muster-shim that watches them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/process/shim/shim_client.h"

namespace muster::testing {
namespace {

using ::testing::HasSubstr;
using Record = internal::ShimRecord;

class ShimStall : public ::testing::Test {
 protected:
  ShimStall() { shim_.bootstrap.set_stall_after_ms(300); }
  std::string File(const std::string& name) const { return folder_.path() + "/" + name; }
  // Waits for the `times`th record of that kind about a rank.
  const Record* WaitFor(Record::BodyCase body, uint32_t rank, int times) {
    return shim_.WaitFor([=, seen = 0](const Record& record) mutable {
      if (record.body_case() != body) return false;
      const uint32_t about = body == Record::kRankStalled ? record.rank_stalled().rank()
                                                          : record.rank_resumed().rank();
      return about == rank && ++seen == times;
    });
  }
  int CountStalled(uint32_t rank) {
    shim_.ReceiveAll();
    int count = 0;
    for (const Record& record : shim_.records()) {
      count += record.has_rank_stalled() && record.rank_stalled().rank() == rank ? 1 : 0;
    }
    return count;
  }

  AttemptFolder folder_;
  ShimClient shim_{folder_.path(), "a", folder_.path() + "/leases"};
};

TEST_F(ShimStall, ARankThatStandsStillIsToldWithWhatItWaitsFor) {
  shim_.AddProbe({"--stop", "--wait-file", File("end"), "--exit", "5"});
  ASSERT_TRUE(shim_.StartAndPrepare());
  shim_.Run();
  const auto* started = shim_.WaitStarted(0);
  ASSERT_NE(started, nullptr);
  const Record* stalled = WaitFor(Record::kRankStalled, 0, 1);
  ASSERT_NE(stalled, nullptr);
  EXPECT_GE(stalled->rank_stalled().silent_ms(), 300u);
  EXPECT_THAT(stalled->rank_stalled().detail(),
              HasSubstr("pid " + std::to_string(started->pid()) + " (rank_probe) in state T"));
  ASSERT_EQ(::kill(started->pid(), SIGCONT), 0);
  std::ofstream(File("end")).put('x');
  // Its status is what it is, whatever was suspected.
  const auto* exited = shim_.WaitExited(0);
  ASSERT_NE(exited, nullptr);
  EXPECT_EQ(exited->value(), 5);
  EXPECT_EQ(CountStalled(0), 1);
}

TEST_F(ShimStall, ARankThatGoesOnIsToldToo) {
  shim_.AddRank(
      {"/bin/sh", "-c", "kill -STOP $$; echo on; while [ ! -e " + File("end") + " ]; do :; done"});
  ASSERT_TRUE(shim_.StartAndPrepare());
  shim_.Run();
  const auto* started = shim_.WaitStarted(0);
  ASSERT_NE(started, nullptr);
  const pid_t pid = started->pid();
  ASSERT_NE(WaitFor(Record::kRankStalled, 0, 1), nullptr);
  ASSERT_EQ(::kill(pid, SIGCONT), 0);
  const Record* resumed = WaitFor(Record::kRankResumed, 0, 1);
  ASSERT_NE(resumed, nullptr);
  EXPECT_GE(resumed->rank_resumed().silent_ms(), 300u);
  std::ofstream(File("end")).put('x');
  EXPECT_NE(shim_.WaitExited(0), nullptr);
}

TEST_F(ShimStall, ARankThatIsBusyWithoutAWordIsLeftAlone) {
  // Rank 2 works in a child, rank 3 in children that come and go.
  const std::string busy = "while [ ! -e " + File("end") + " ]; do :; done";
  shim_.AddProbe({"--stop", "--exit", "0"});
  shim_.AddRank({"/bin/sh", "-c", busy});
  shim_.AddRank({"/bin/sh", "-c", "sh -c '" + busy + "'; exit 0"});
  shim_.AddRank({"/bin/sh", "-c", "while [ ! -e " + File("end") + " ]; do /bin/true; done"});
  ASSERT_TRUE(shim_.StartAndPrepare());
  shim_.Run();
  // The clock of this test is a rank that does hang.
  ASSERT_NE(WaitFor(Record::kRankStalled, 0, 1), nullptr);
  for (const uint32_t rank : {1u, 2u, 3u}) EXPECT_EQ(CountStalled(rank), 0) << rank;
  std::ofstream(File("end")).put('x');
  shim_.Stop(0);
  EXPECT_NE(shim_.WaitStopped(), nullptr);
}

TEST_F(ShimStall, NobodyIsWatchedUnasked) {
  shim_.bootstrap.set_stall_after_ms(0);
  shim_.AddProbe({"--sleep-ms", "700", "--exit", "0"});
  ASSERT_TRUE(shim_.RunToEnd());
  EXPECT_EQ(CountStalled(0), 0);
}

}  // namespace
}  // namespace muster::testing
