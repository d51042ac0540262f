#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>

#include "agent/supervise/attempt_directory.h"
#include "tests/process/agent/launcher_fixture.h"

namespace muster {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using Record = internal::ShimRecord;

const AttemptId kAttempt = UniqueAttempt("job-r");

TEST_F(LauncherTest, AdoptsARunningShimFromTheNextRecordOn) {
  const std::string gate = temp_.path() + "/gate";
  Start(kAttempt, {"while [ ! -e " + gate + " ]; do sleep 0.02; done; exit 4"});
  const uint64_t next = records_[kAttempt].back().index() + 1;
  const int rank_pid = records_[kAttempt].back().rank_started().pid();
  Restart();
  records_.clear();
  launcher_->Adopt(kAttempt, next);
  launcher_->Signal(kAttempt, SIGCONT, {});  // Dropped: nobody is connected yet.
  ASSERT_TRUE(ProcessLives(rank_pid));
  ASSERT_GE(::open(gate.c_str(), O_CREAT | O_CLOEXEC, 0600), 0);
  ASSERT_TRUE(Wait([&] { return Saw(kAttempt, Record::kStopped); }));
  EXPECT_EQ(records_[kAttempt].front().index(), next);
  EXPECT_EQ(records_[kAttempt].front().rank_exited().value(), 4);
  launcher_->Quit(kAttempt);
  EXPECT_TRUE(Wait([&] { return Gone(kAttempt); }));
}

TEST_F(LauncherTest, ReadsWhatAnEndedShimLeft) {
  Start(kAttempt, {"exit 4"});
  ASSERT_TRUE(Wait([&] { return Saw(kAttempt, Record::kStopped); }));
  const size_t all = records_[kAttempt].size();
  launcher_->Quit(kAttempt);
  ASSERT_TRUE(Wait([&] { return Gone(kAttempt); }));
  Restart();
  records_.clear();
  gone_.clear();
  launcher_->Adopt(kAttempt, 3);
  EXPECT_FALSE(Gone(kAttempt)) << "never from inside the call";
  ASSERT_TRUE(Wait([&] { return Gone(kAttempt); }));
  ASSERT_THAT(records_[kAttempt], SizeIs(all - 2));
  EXPECT_EQ(records_[kAttempt].front().index(), 3u);
}

TEST_F(LauncherTest, AdoptingNothingIsAnEnd) {
  launcher_->Adopt(kAttempt, 1);
  EXPECT_TRUE(Wait([&] { return Gone(kAttempt); }));
  EXPECT_THAT(records_, IsEmpty());
}

TEST_F(LauncherTest, LaunchFollowsAShimThatADeadAgentStarted) {
  Start(kAttempt, {"exec sleep 600"});
  const int shim = ShimPid(kAttempt);
  Restart();
  records_.clear();
  launcher_->Launch(kAttempt, Scripts(kAttempt, {"exit 9"}));
  ASSERT_TRUE(Wait([&] { return Saw(kAttempt, Record::kRankStarted); }));
  EXPECT_EQ(ShimPid(kAttempt), shim);
  EXPECT_EQ(records_[kAttempt].front().index(), 1u);
  EXPECT_FALSE(Saw(kAttempt, Record::kRankExited));
}

TEST_F(LauncherTest, LaunchTakesADirectoryInWhichNothingBegan) {
  launched_.push_back(kAttempt);
  ASSERT_EQ(::mkdir(Directory(kAttempt).c_str(), 0700), 0);
  launcher_->Launch(kAttempt, Scripts(kAttempt, {"exit 0"}));
  EXPECT_TRUE(Wait([&] { return Saw(kAttempt, Record::kPrepared); }));
}

// What a new agent finds when the one before it died right behind starting a shim.
TEST_F(LauncherTest, AShimThatComesLateIsNotStartedTwice) {
  launched_.push_back(kAttempt);
  launcher_->Launch(kAttempt, Scripts(kAttempt, {"exit 0"}));
  Restart();
  launcher_->Launch(kAttempt, Scripts(kAttempt, {"exit 0"}));
  ASSERT_TRUE(Wait([&] { return Saw(kAttempt, Record::kPrepared) || Gone(kAttempt); }));
  EXPECT_FALSE(Gone(kAttempt)) << gone_[kAttempt];
  launcher_->Run(kAttempt, {});
  ASSERT_TRUE(Wait([&] { return Saw(kAttempt, Record::kStopped); }));
  EXPECT_TRUE(Saw(kAttempt, Record::kRankStarted, 1));
  EXPECT_FALSE(Saw(kAttempt, Record::kRankStarted, 2));
}

TEST_F(LauncherTest, ReportsAKilledShimWithEverythingItRecorded) {
  Start(kAttempt, {"exit 7", "exec sleep 600"});
  ASSERT_TRUE(Wait([&] { return Saw(kAttempt, Record::kRankExited); }));
  ASSERT_EQ(::kill(ShimPid(kAttempt), SIGKILL), 0);
  ASSERT_TRUE(Wait([&] { return Gone(kAttempt); }));
  EXPECT_THAT(gone_[kAttempt], ::testing::HasSubstr("SIGKILL"));
  EXPECT_FALSE(Saw(kAttempt, Record::kStopped));
}

TEST_F(LauncherTest, NoticesTheDeathOfAnAdoptedShim) {
  Start(kAttempt, {"exec sleep 600"});
  const int shim = ShimPid(kAttempt);
  Restart();
  launcher_->Adopt(kAttempt, records_[kAttempt].back().index() + 1);
  ASSERT_FALSE(Wait([&] { return Gone(kAttempt); }, std::chrono::seconds(0)));
  ASSERT_EQ(::kill(shim, SIGKILL), 0);
  EXPECT_TRUE(Wait([&] { return Gone(kAttempt); }));
}

class SweepAfterDeath : public LauncherTest, public ::testing::WithParamInterface<bool> {
 protected:
  SweepAfterDeath() {
    if (!GetParam()) options_.cgroup_parent.clear();
    Restart();
  }
  // A rank with a child of its own session that has lost its marks, and one that has not.
  std::vector<int> StartFamily() {
    const std::string pids = temp_.path() + "/pids";
    Start(kAttempt,
          {"echo family; setsid sleep 600 & a=$!; env -i sleep 600 & b=$!; echo $a $b $$ >" + pids +
           "; sleep 600"});
    std::vector<int> all(3);
    const std::string line = WaitForLine(pids);
    EXPECT_EQ(std::sscanf(line.c_str(), "%d %d %d", &all[0], &all[1], &all[2]), 3);
    return all;
  }
};

TEST_P(SweepAfterDeath, LeavesNothingOfTheAttempt) {
  const std::vector<int> family = StartFamily();
  // A log exists once there is output.
  ASSERT_TRUE(Wait([&] { return Exists(Directory(kAttempt) + "/" + RankLogName(0)); }));
  ASSERT_EQ(::kill(ShimPid(kAttempt), SIGKILL), 0);
  ASSERT_TRUE(Wait([&] { return Gone(kAttempt); }));
  std::optional<Launcher::SweepResult> result;
  launcher_->Sweep(kAttempt, [&](Launcher::SweepResult swept) { result = std::move(swept); });
  EXPECT_FALSE(result.has_value());
  ASSERT_TRUE(Wait([&] { return result.has_value(); }));
  EXPECT_THAT(result->unkillable, IsEmpty());
  EXPECT_THAT(result->logs, SizeIs(1));
  for (const int pid : family) EXPECT_FALSE(ProcessLives(pid));
  if (GetParam()) {
    EXPECT_GE(result->killed, 2u);
  }
}

TEST_P(SweepAfterDeath, KillsALivingShimThatNobodyFollows) {
  const std::vector<int> family = StartFamily();
  const int shim = ShimPid(kAttempt);
  Restart();
  gone_.clear();
  bool swept = false;
  launcher_->Sweep(kAttempt, [&](Launcher::SweepResult) { swept = true; });
  ASSERT_TRUE(Wait([&] { return swept; }));
  EXPECT_FALSE(ProcessLives(shim));
  for (const int pid : family) EXPECT_FALSE(ProcessLives(pid));
  EXPECT_FALSE(Gone(kAttempt));
}

INSTANTIATE_TEST_SUITE_P(Cgroup, SweepAfterDeath, ::testing::Bool(),
                         [](const auto& one) { return one.param ? "With" : "Without"; });

TEST_F(LauncherTest, SweepsAnAttemptThatWasNeverHere) {
  bool swept = false;
  launcher_->Sweep(kAttempt,
                   [&](Launcher::SweepResult result) { swept = result.unkillable.empty(); });
  EXPECT_TRUE(Wait([&] { return swept; }));
}

}  // namespace
}  // namespace muster
