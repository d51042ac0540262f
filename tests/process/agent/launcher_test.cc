#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include "agent/supervise/attempt_directory.h"
#include "agent/supervise/cgroup.h"
#include "tests/process/agent/launcher_fixture.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using Record = internal::ShimRecord;

const AttemptId kFirst = UniqueAttempt("job-a");
const AttemptId kSecond = UniqueAttempt("job-b");

TEST_F(LauncherTest, TellsTheWholeStoryOfAnAttemptInOrder) {
  Start(kFirst, {"echo $MASTER_ADDR; exit 3"});
  ASSERT_TRUE(Wait([&] { return Saw(kFirst, Record::kStopped); }));
  uint64_t index = 0;
  std::vector<Record::BodyCase> story;
  for (const Record& record : records_[kFirst]) {
    EXPECT_EQ(record.index(), ++index);
    story.push_back(record.body_case());
    if (record.has_rank_exited()) {
      EXPECT_EQ(record.rank_exited().value(), 3);
    }
  }
  EXPECT_THAT(story,
              ::testing::ElementsAre(Record::kBegun, Record::kPrepared, Record::kRankStarted,
                                     Record::kRankExited, Record::kLogClosed, Record::kStopped));
  EXPECT_FALSE(Gone(kFirst));
  launcher_->Quit(kFirst);
  EXPECT_TRUE(Wait([&] { return Gone(kFirst); }));
  EXPECT_TRUE(Exists(Directory(kFirst))) << "files stay until the attempt is released";
}

TEST_F(LauncherTest, ReleaseDeletesFilesAndCgroup) {
  Start(kFirst, {"exit 0"});
  ASSERT_TRUE(Wait([&] { return Saw(kFirst, Record::kStopped); }));
  const std::string cgroup = options_.cgroup_parent + "/" + CgroupName(kFirst, options_.node_id);
  EXPECT_EQ(Exists(cgroup), !options_.cgroup_parent.empty());
  launcher_->Release(kFirst);
  EXPECT_TRUE(Wait([&] { return !Exists(Directory(kFirst)); }));
  EXPECT_TRUE(Wait([&] { return !Exists(cgroup) || options_.cgroup_parent.empty(); }));
  EXPECT_FALSE(Gone(kFirst)) << "nothing is told about a released attempt";
  EXPECT_FALSE(ProcessLives(ShimPid(kFirst)));
}

TEST_F(LauncherTest, StopEndsRanksWithinTheirGrace) {
  Start(kFirst, {"exec sleep 600", "trap '' TERM; echo up >" + temp_.path() + "/up; sleep 600"});
  WaitForLine(temp_.path() + "/up");
  launcher_->Stop(kFirst, std::chrono::milliseconds(300));
  ASSERT_TRUE(Wait([&] { return Saw(kFirst, Record::kStopped); }));
  for (const Record& record : records_[kFirst]) {
    if (!record.has_rank_exited()) continue;
    EXPECT_EQ(record.rank_exited().kind(), internal::ShimRankExited::SIGNAL);
    EXPECT_EQ(record.rank_exited().value(), record.rank_exited().rank() == 0 ? SIGTERM : SIGKILL);
  }
}

TEST_F(LauncherTest, PassesSignalsToTheRanksMeant) {
  const std::string file = temp_.path() + "/got";
  const std::string script = "trap 'echo $RANK >>" + file + "' USR1; echo up >" + temp_.path() +
                             "/up$RANK; while :; do sleep 0.02; done";
  launched_.push_back(kFirst);
  internal::ShimBootstrap bootstrap = Scripts(kFirst, {script, script});
  bootstrap.mutable_ranks(0)->add_env("RANK=0");
  bootstrap.mutable_ranks(1)->add_env("RANK=1");
  launcher_->Launch(kFirst, bootstrap);
  launcher_->Run(kFirst, {});  // Kept until the shim is connected.
  WaitForLine(temp_.path() + "/up0");
  WaitForLine(temp_.path() + "/up1");
  launcher_->Signal(kFirst, SIGUSR1, {1});
  EXPECT_EQ(WaitForLine(file), "1\n");
}

TEST_F(LauncherTest, TellsEveryReasonOfAFailedPreparation) {
  launched_.push_back(kFirst);
  internal::ShimBootstrap bootstrap = Scripts(kFirst, {"exit 0"});
  bootstrap.set_working_directory("/nonexistent");
  launcher_->Launch(kFirst, bootstrap);
  ASSERT_TRUE(Wait([&] { return Saw(kFirst, Record::kPrepareFailed); }));
  EXPECT_FALSE(Saw(kFirst, Record::kRankStarted));
}

TEST_F(LauncherTest, SaysWhyAShimCannotBeStarted) {
  options_.shim_binary = "/nonexistent/muster-shim";
  Restart();
  launched_.push_back(kFirst);
  launcher_->Launch(kFirst, Scripts(kFirst, {"exit 0"}));
  EXPECT_FALSE(Gone(kFirst)) << "never from inside the call";
  ASSERT_TRUE(Wait([&] { return Gone(kFirst); }));
  EXPECT_THAT(gone_[kFirst], HasSubstr("/nonexistent/muster-shim"));
}

TEST_F(LauncherTest, SaysWhatAShimThatCannotBeginPrinted) {
  launched_.push_back(kFirst);
  launcher_->Launch(kFirst, {});
  ASSERT_TRUE(Wait([&] { return Gone(kFirst); }));
  EXPECT_THAT(gone_[kFirst], HasSubstr("bootstrap"));
}

TEST_F(LauncherTest, HandsOverMegabytesOfEnvironment) {
  launched_.push_back(kFirst);
  internal::ShimBootstrap bootstrap = Scripts(kFirst, {"exit 0", "exit 0", "exit 0", "exit 0"});
  for (internal::ShimRank& rank : *bootstrap.mutable_ranks()) {
    for (int i = 0; i < 10; ++i)
      rank.add_env("BIG" + std::to_string(i) + "=" + std::string(100'000, 'x'));
  }
  launcher_->Launch(kFirst, bootstrap);
  launcher_->Run(kFirst, {});
  ASSERT_TRUE(Wait([&] { return Saw(kFirst, Record::kRankExited, 4); }));
}

TEST_F(LauncherTest, WorksWithPathsLongerThanASocketAddress) {
  options_.attempts_directory = temp_.path() + "/" + std::string(150, 'd') + "/attempts";
  Restart();
  Start(kFirst, {"exit 0"});
  EXPECT_TRUE(Wait([&] { return Saw(kFirst, Record::kStopped); }));
}

TEST_F(LauncherTest, KeepsAttemptsApart) {
  Start(kFirst, {"exec sleep 600"});
  Start(kSecond, {"exit 5"});
  EXPECT_TRUE(Wait([&] { return Saw(kSecond, Record::kStopped); }));
  EXPECT_FALSE(Saw(kFirst, Record::kRankExited));
  EXPECT_THAT(launcher_->ListAttempts(), ::testing::ElementsAre(kFirst, kSecond));
}

TEST_F(LauncherTest, TellsWhichLogsGrow) {
  std::map<uint32_t, int> told;
  const auto count = [&](const AttemptId& id, uint32_t rank, uint64_t fixed_bytes) {
    EXPECT_EQ(id, kFirst);
    EXPECT_EQ(fixed_bytes, uint64_t{64} << 20);
    ++told[rank];
  };
  launcher_->SetLogsGrew(count);
  const std::string wait = fmt::format("until test -e {}/go; do sleep 0.01; done;", temp_.path());
  Start(kFirst, {"exec sleep 600", "echo a;" + wait + "echo b; exec sleep 600"});
  ASSERT_TRUE(Wait([&] { return told[1] > 0; }));
  // The next agent is told of every file, and what grows.
  Restart();
  told.clear();
  launcher_->SetLogsGrew(count);
  launcher_->Adopt(kFirst, 1);
  ASSERT_TRUE(Wait([&] { return Saw(kFirst, Record::kRankStarted, 2) && told[1] > 0; }));
  told.clear();
  UniqueFd(::open((temp_.path() + "/go").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)).Reset();
  ASSERT_TRUE(Wait([&] { return told[1] > 0; }));
  EXPECT_EQ(told[0], 0);
}

TEST_F(LauncherTest, TellsOfAFloodNowAndThenOnly) {
  int told = 0;
  launcher_->SetLogsGrew([&](const AttemptId&, uint32_t, uint64_t) { ++told; });
  const auto begin = loop_.clock().Now();
  Start(kFirst, {"i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done"});
  ASSERT_TRUE(Wait([&] { return Saw(kFirst, Record::kLogClosed); }));
  const auto took =
      std::chrono::duration_cast<std::chrono::milliseconds>(loop_.clock().Now() - begin);
  EXPECT_GT(told, 0);
  EXPECT_LE(told, took / std::chrono::milliseconds(10) + 2);
}

TEST_F(LauncherTest, StopAllEndsEveryShim) {
  Start(kFirst, {"exec sleep 600"});
  Start(kSecond, {"exit 0"});
  bool done = false;
  launcher_->StopAll(std::chrono::milliseconds(1000), std::chrono::milliseconds(20'000), "told to",
                     [&] { done = true; });
  ASSERT_TRUE(Wait([&] { return done; }));
  EXPECT_TRUE(Saw(kFirst, Record::kSelfStop));
  EXPECT_TRUE(Saw(kFirst, Record::kStopped));
  EXPECT_FALSE(ProcessLives(ShimPid(kFirst)));
  EXPECT_FALSE(ProcessLives(ShimPid(kSecond)));
  const std::string cgroup = options_.cgroup_parent + "/" + CgroupName(kFirst, options_.node_id);
  EXPECT_TRUE(Wait([&] { return !Exists(cgroup) || options_.cgroup_parent.empty(); }));
}

TEST_F(LauncherTest, KillsAShimThatHangsInsteadOfStoppingItsRanks) {
  options_.stop_limit = std::chrono::milliseconds(100);
  Restart();
  const AttemptId id = UniqueAttempt("job-h");
  Start(id, {"exec sleep 600"});
  const int rank = records_[id].back().rank_started().pid();
  const int shim = ShimPid(id);
  ASSERT_EQ(::kill(shim, SIGSTOP), 0);
  launcher_->Stop(id, std::chrono::milliseconds(100));
  EXPECT_TRUE(Wait([&] { return Gone(id); }));
  EXPECT_FALSE(ProcessLives(shim));
  EXPECT_TRUE(Wait([&] { return !ProcessLives(rank); })) << "ranks die with their shim";
}

TEST_F(LauncherTest, RemovesGroupsThatNobodyUses) {
  if (options_.cgroup_parent.empty()) GTEST_SKIP() << "no writable control group";
  const auto group_of = [&](const AttemptId& id) {
    return options_.cgroup_parent + "/" + CgroupName(id, options_.node_id);
  };
  const auto make_old = [](const std::string& path) {
    const timespec times[2] = {{.tv_sec = 1, .tv_nsec = 0}, {.tv_sec = 1, .tv_nsec = 0}};
    return ::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0;
  };
  // One whose agent and shim are killed, one that waits to be run, and one that is being made.
  Start(kFirst, {"exit 0"});
  ASSERT_TRUE(Wait([&] { return Saw(kFirst, Record::kStopped); }));
  launched_.push_back(kSecond);
  launcher_->Launch(kSecond, Scripts(kSecond, {"exit 0"}));
  ASSERT_TRUE(Wait([&] { return Saw(kSecond, Record::kPrepared); }));
  ::kill(ShimPid(kFirst), SIGKILL);
  ASSERT_TRUE(Wait([&] { return Gone(kFirst); }));
  const std::string third = CgroupName(UniqueAttempt("job-c"), options_.node_id);
  absl::StatusOr<HeldCgroup> made = MakeCgroup(options_.cgroup_parent, third);
  ASSERT_TRUE(made.ok()) << made.status();
  for (const std::string& group : {group_of(kFirst), group_of(kSecond), made->directory}) {
    ASSERT_TRUE(make_old(group)) << group;
  }
  ShimLauncherOptions other = options_;
  other.attempts_directory = temp_.path() + "/other";
  other.stale_cgroups_delay = std::chrono::milliseconds(1);
  auto next = ShimLauncher::Create(loop_, other);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_TRUE(Wait([&] { return !Exists(group_of(kFirst)); }));
  next->reset();  // Ends what it began.
  EXPECT_TRUE(Exists(group_of(kSecond)));
  EXPECT_TRUE(Exists(made->directory));

  // Not older than a minute, then unused and old.
  made = MakeCgroup(options_.cgroup_parent, third);
  ASSERT_TRUE(made.ok()) << made.status();
  made->lock.Reset();
  RemoveStaleCgroup(made->directory);
  EXPECT_TRUE(Exists(made->directory));
  ASSERT_TRUE(make_old(made->directory));
  RemoveStaleCgroup(made->directory);
  EXPECT_FALSE(Exists(made->directory));
}

TEST_F(LauncherTest, LeavesNoZombie) {
  Start(kFirst, {"exit 0"});
  ASSERT_TRUE(Wait([&] { return Saw(kFirst, Record::kStopped); }));
  launcher_->Quit(kFirst);
  ASSERT_TRUE(Wait([&] { return Gone(kFirst); }));
  EXPECT_FALSE(Exists("/proc/" + std::to_string(ShimPid(kFirst))));
}

}  // namespace
}  // namespace muster
