#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <fstream>

#include "tests/process/agent/agent_process.h"
#include "tests/process/agent/launcher_fixture.h"

namespace muster {
namespace {

using std::chrono::milliseconds;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const AttemptId kAttempt = UniqueAttempt("job-r");

// Prints 1 to 400 in about two seconds, then ends with 6.
constexpr char kChatty[] =
    "i=0; while [ $i -lt 400 ]; do i=$((i+1)); echo $i; sleep 0.005; done; exit 6";

std::string Numbers(int last) {
  std::string text;
  for (int i = 1; i <= last; ++i) text += fmt::format("{}\n", i);
  return text;
}

TEST_F(AgentTest, KilledAndReplacedItLosesNothing) {
  StartAgent();
  Run(kAttempt, 2, kChatty);
  const int shim = ShimPid(kAttempt);
  for (int i = 0; i < 6; ++i) {
    const size_t hellos = coordinator_.Read().hellos.size();
    agent_->KillNow();
    StartAgent();
    ASSERT_TRUE(coordinator_.Wait([&](const auto& state) { return state.hellos.size() > hellos; }));
  }
  EXPECT_EQ(ShimPid(kAttempt), shim);
  ASSERT_TRUE(WaitFor(kAttempt, v1::Event::kAttemptStopped));
  EXPECT_THAT(Events(kAttempt, v1::Event::kPrepared), SizeIs(1));
  EXPECT_THAT(Events(kAttempt, v1::Event::kRankStarted), SizeIs(2));
  EXPECT_THAT(Events(kAttempt, v1::Event::kRankLost), IsEmpty());
  EXPECT_THAT(Events(kAttempt, v1::Event::kRankLogClosed), SizeIs(2));
  ASSERT_THAT(Events(kAttempt, v1::Event::kRankExited), SizeIs(2));
  for (const v1::Event& end : Events(kAttempt, v1::Event::kRankExited)) {
    EXPECT_EQ(end.rank_exited().status().exit_code(), 6);
  }
  EXPECT_EQ(CompleteOutput(kAttempt, 0), Numbers(400));
  EXPECT_EQ(CompleteOutput(kAttempt, 1), Numbers(400));
}

TEST_F(AgentTest, TellsWhatHappenedWhileItWasDead) {
  const std::string gate = temp_.path() + "/gate";
  StartAgent();
  Run(kAttempt, 1, "while [ ! -e " + gate + " ]; do sleep 0.02; done; echo late; exit 9");
  const int rank = Events(kAttempt, v1::Event::kRankStarted)[0].rank_started().pid();
  agent_->KillNow();
  std::ofstream(gate).close();
  ASSERT_TRUE(WaitUntil([&] { return !ProcessLives(rank); }));
  StartAgent();
  ASSERT_TRUE(WaitFor(kAttempt, v1::Event::kAttemptStopped));
  EXPECT_EQ(Events(kAttempt, v1::Event::kRankExited)[0].rank_exited().status().exit_code(), 9);
  EXPECT_EQ(CompleteOutput(kAttempt, 0), "late\n");
}

TEST_F(AgentTest, KilledWhileEverythingStartsItStartsNothingTwice) {
  StartAgent();
  ASSERT_TRUE(coordinator_.Wait([](const auto& state) { return state.connected; }));
  const std::string count = temp_.path() + "/count";
  v1::Assignment assignment = Prepared(kAttempt, 2, "echo $RANK >>" + count + "; exec sleep 600");
  coordinator_.Want(assignment);
  agent_->KillNow();
  StartAgent();
  ASSERT_TRUE(WaitFor(kAttempt, v1::Event::kPrepared));
  assignment.set_desired(v1::Assignment::RUNNING);
  assignment.mutable_rendezvous()->set_address("127.0.0.1");
  coordinator_.Want(assignment);
  agent_->KillNow();
  StartAgent();
  ASSERT_TRUE(WaitFor(kAttempt, v1::Event::kRankStarted, 2));
  ASSERT_TRUE(WaitUntil([&] {
    std::ifstream file(count);
    return std::count(std::istreambuf_iterator<char>(file), {}, '\n') >= 2;
  }));
  std::ifstream file(count);
  EXPECT_EQ(std::count(std::istreambuf_iterator<char>(file), {}, '\n'), 2);
}

TEST_F(AgentTest, ReportsRanksLostWhenTheirShimIsKilled) {
  StartAgent();
  Run(kAttempt, 2, "if [ $RANK = 0 ]; then exit 3; fi; setsid sleep 600 & exec sleep 600");
  ASSERT_TRUE(WaitFor(kAttempt, v1::Event::kRankExited));
  const int survivor = Events(kAttempt, v1::Event::kRankStarted)[1].rank_started().pid();
  ASSERT_EQ(::kill(ShimPid(kAttempt), SIGKILL), 0);
  ASSERT_TRUE(WaitFor(kAttempt, v1::Event::kAttemptStopped));
  EXPECT_FALSE(ProcessLives(survivor));
  ASSERT_THAT(Events(kAttempt, v1::Event::kRankLost), SizeIs(1));
  EXPECT_EQ(Events(kAttempt, v1::Event::kRankLost)[0].rank_lost().rank(), 1u);
  ASSERT_THAT(Events(kAttempt, v1::Event::kRankExited), SizeIs(1));
  EXPECT_EQ(Events(kAttempt, v1::Event::kRankExited)[0].rank_exited().status().exit_code(), 3);
}

TEST_F(AgentTest, ReportsRanksLostWhenAgentAndShimAreKilled) {
  StartAgent();
  Run(kAttempt, 1, "exec sleep 600");
  const int rank = Events(kAttempt, v1::Event::kRankStarted)[0].rank_started().pid();
  agent_->KillNow();
  ASSERT_EQ(::kill(ShimPid(kAttempt), SIGKILL), 0);
  StartAgent();
  ASSERT_TRUE(WaitFor(kAttempt, v1::Event::kAttemptStopped));
  EXPECT_THAT(Events(kAttempt, v1::Event::kRankLost), SizeIs(1));
  EXPECT_THAT(Events(kAttempt, v1::Event::kRankExited), IsEmpty());
  EXPECT_FALSE(ProcessLives(rank));
}

TEST_F(AgentTest, GoesOnWithANewCoordinator) {
  StartAgent();
  Run(kAttempt, 1, kChatty);
  coordinator_.Stop();
  coordinator_.Start();
  ASSERT_TRUE(WaitFor(kAttempt, v1::Event::kAttemptStopped));
  EXPECT_EQ(CompleteOutput(kAttempt, 0), Numbers(400));
  EXPECT_THAT(Events(kAttempt, v1::Event::kRankStarted), SizeIs(1));
}

TEST_F(AgentTest, RanksStopByThemselvesWhenTheCoordinatorStaysAway) {
  StartAgent();
  v1::Assignment assignment = Prepared(kAttempt, 1, "exec sleep 600");
  assignment.mutable_launch()->mutable_on_coordinator_loss()->mutable_stop_after()->set_seconds(4);
  Run(assignment);
  const int rank = Events(kAttempt, v1::Event::kRankStarted)[0].rank_started().pid();
  // Renewed for as long as the coordinator answers.
  const uint64_t heartbeats = coordinator_.Read().heartbeats;
  ASSERT_TRUE(
      coordinator_.Wait([&](const auto& state) { return state.heartbeats > heartbeats + 24; }));
  ASSERT_TRUE(ProcessLives(rank));
  coordinator_.Stop();
  EXPECT_TRUE(WaitUntil([&] { return !ProcessLives(rank); }, std::chrono::seconds(20)));
  coordinator_.Start();
  ASSERT_TRUE(WaitFor(kAttempt, v1::Event::kAttemptStopped));
  EXPECT_FALSE(
      Events(kAttempt, v1::Event::kAttemptStopped)[0].attempt_stopped().own_reason().empty());
}

TEST_F(AgentTest, RanksStopByThemselvesWhenTheAgentStaysAway) {
  StartAgent();
  v1::Assignment assignment = Prepared(kAttempt, 1, "exec sleep 600");
  assignment.mutable_launch()->mutable_on_coordinator_loss()->mutable_stop_after()->set_seconds(4);
  Run(assignment);
  const int rank = Events(kAttempt, v1::Event::kRankStarted)[0].rank_started().pid();
  agent_->KillNow();
  EXPECT_TRUE(WaitUntil([&] { return !ProcessLives(rank); }, std::chrono::seconds(20)));
}

TEST_F(AgentTest, LeavesItsRanksRunning) {
  StartAgent();
  Run(kAttempt, 1, "exec sleep 600");
  const int rank = Events(kAttempt, v1::Event::kRankStarted)[0].rank_started().pid();
  agent_->Signal(SIGTERM);
  const std::optional<int> status = agent_->Wait();
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(*status, 0);
  EXPECT_TRUE(ProcessLives(rank));
}

TEST_F(AgentTest, AnEphemeralOneTakesItsRanksAlong) {
  StartAgent(/*ephemeral=*/true);
  Run(kAttempt, 1, "exec sleep 600");
  const int rank = Events(kAttempt, v1::Event::kRankStarted)[0].rank_started().pid();
  const int shim = ShimPid(kAttempt);
  agent_->Signal(SIGTERM);
  const std::optional<int> status = agent_->Wait();
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(*status, 0);
  EXPECT_FALSE(ProcessLives(rank));
  EXPECT_FALSE(ProcessLives(shim));
  EXPECT_THAT(Events(kAttempt, v1::Event::kAttemptStopped), SizeIs(1));
}

TEST_F(AgentTest, AnEphemeralOneEndsWithItsCoordinator) {
  StartAgent(/*ephemeral=*/true);
  v1::Assignment assignment = Prepared(kAttempt, 1, "exec sleep 600");
  assignment.mutable_launch()->mutable_on_coordinator_loss()->mutable_stop_after()->set_seconds(1);
  Run(assignment);
  const int rank = Events(kAttempt, v1::Event::kRankStarted)[0].rank_started().pid();
  const int shim = ShimPid(kAttempt);
  coordinator_.Stop();
  const std::optional<int> status = agent_->Wait();
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(*status, 0);
  EXPECT_FALSE(ProcessLives(rank));
  EXPECT_FALSE(ProcessLives(shim));
}

TEST_F(AgentTest, StopsWhatTheCoordinatorDoesNotKnow) {
  StartAgent();
  Run(kAttempt, 1, "exec sleep 600");
  const int rank = Events(kAttempt, v1::Event::kRankStarted)[0].rank_started().pid();
  coordinator_.Stop();
  coordinator_.Forget(kAttempt);
  coordinator_.Start();
  EXPECT_TRUE(WaitUntil([&] { return !ProcessLives(rank); }));
  EXPECT_TRUE(WaitUntil([&] { return !Exists(AttemptDirectory(kAttempt)); }));
}

TEST_F(AgentTest, SweepsWhatALostJournalDoesNotKnow) {
  StartAgent();
  Run(kAttempt, 1, "setsid sleep 600 & exec sleep 600");
  const int rank = Events(kAttempt, v1::Event::kRankStarted)[0].rank_started().pid();
  const int shim = ShimPid(kAttempt);
  agent_->KillNow();
  // A coordinator would take the new journal for what it is; this one has nothing to say.
  coordinator_.Stop();
  ASSERT_EQ(::unlink((temp_.path() + "/state/journal").c_str()), 0);
  StartAgent();
  EXPECT_TRUE(WaitUntil([&] { return !ProcessLives(rank) && !ProcessLives(shim); }));
  EXPECT_TRUE(WaitUntil([&] { return !Exists(AttemptDirectory(kAttempt)); }));
}

}  // namespace
}  // namespace muster
