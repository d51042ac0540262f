#include "agent/core/agent_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/agent_core/core_fixture.h"

namespace muster::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(AgentCoreTest, TakesAJobFromAssignmentToRelease) {
  StartAgent();
  Connect();
  observer_.Take();
  Assign(Prepare(kJob1));
  EXPECT_THAT(launcher_->Take(), ElementsAre("launch j1/1"));
  EXPECT_THAT(observer_.Take(), ElementsAre("attempt 1 ranks 2"));
  TellBegun(kJob1, 1);
  TellPrepared(kJob1, 2);
  const std::vector<v1::Event> events = TakeEvents();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_THAT(events[0].prepared().addresses(), ElementsAre("10.0.0.1"));
  EXPECT_EQ(events[0].prepared().rendezvous_port(), 29500u);

  Assign(Run(kJob1));
  EXPECT_THAT(launcher_->Take(), ElementsAre("run j1/1 MASTER_ADDR=10.0.0.1 MASTER_PORT=29500"));
  TellStarted(kJob1, 3, 0);
  TellStarted(kJob1, 4, 1);
  TellExited(kJob1, 5, 1, 0);
  TellLogClosed(kJob1, 6, 1, 77);
  TellExited(kJob1, 7, 0, 3);
  TellLogClosed(kJob1, 8, 0, 0);
  TellStopped(kJob1, 9);
  EXPECT_THAT(TakeEventWords(),
              ElementsAre("2 started 0", "3 started 1", "4 exited 1 0", "5 log 1 77",
                          "6 exited 0 3", "7 log 0 0", "8 stopped"));
  EXPECT_THAT(observer_.Take(), ElementsAre("log closed 1 1 77", "log closed 1 0 0"));
  EXPECT_THAT(launcher_->Take(), ElementsAre("quit j1/1"));
  Die(kJob1, "exited");
  EXPECT_THAT(launcher_->Take(), IsEmpty()) << "an expected end";

  Assign(Assignment(kJob1, 3, v1::Assignment::STOPPED));
  EXPECT_THAT(launcher_->Take(), IsEmpty());
  Ack(8);
  Assign(Assignment(kJob1, 4, v1::Assignment::RELEASED));
  EXPECT_THAT(launcher_->Take(), ElementsAre("release j1/1"));
  EXPECT_THAT(observer_.Take(), ElementsAre("forgotten 1"));
  EXPECT_TRUE(core_->state().attempts.empty());
  EXPECT_TRUE(core_->state().events.empty());
  EXPECT_THAT(observer_.errors, IsEmpty());
}

TEST_F(AgentCoreTest, TakesARepeatedAssignmentForNothing) {
  StartAgent();
  Connect();
  Assign(Prepare(kJob1));
  launcher_->Take();
  Assign(Prepare(kJob1));
  Assign(Prepare(kJob1, 0));
  EXPECT_THAT(launcher_->Take(), IsEmpty());
}

TEST_F(AgentCoreTest, RunsOnlyOncePreparedAndOnlyOnce) {
  StartAgent();
  Connect();
  Assign(Prepare(kJob1));
  Assign(Run(kJob1));
  EXPECT_THAT(launcher_->Take(), ElementsAre("launch j1/1"));
  TellBegun(kJob1, 1);
  TellPrepared(kJob1, 2);
  EXPECT_THAT(launcher_->Take(), ElementsAre("run j1/1 MASTER_ADDR=10.0.0.1 MASTER_PORT=29500"));
  Assign(Run(kJob1, 3));
  EXPECT_THAT(launcher_->Take(), IsEmpty());
}

TEST_F(AgentCoreTest, ShortensTheGraceButNeverLengthensIt) {
  StartAgent();
  Connect();
  RunBoth(kJob1);
  Assign(Assignment(kJob1, 3, v1::Assignment::STOPPED));
  EXPECT_THAT(launcher_->Take(), ElementsAre("stop j1/1 grace 3000"));
  v1::Assignment longer = Assignment(kJob1, 4, v1::Assignment::STOPPED);
  longer.mutable_stop_grace()->set_seconds(60);
  Assign(longer);
  EXPECT_THAT(launcher_->Take(), IsEmpty());
  v1::Assignment at_once = Assignment(kJob1, 5, v1::Assignment::STOPPED);
  at_once.mutable_stop_grace();
  Assign(at_once);
  EXPECT_THAT(launcher_->Take(), ElementsAre("stop j1/1 grace 0"));
}

TEST_F(AgentCoreTest, PassesSignalsOnWhileAShimIsThere) {
  StartAgent();
  Connect();
  RunBoth(kJob1);
  v1::CoordinatorMessage message;
  *message.mutable_signal()->mutable_key() = KeyOf(kJob1);
  message.mutable_signal()->set_signal(10);
  message.mutable_signal()->add_ranks(1);
  Say(message);
  EXPECT_THAT(launcher_->Take(), ElementsAre("signal j1/1 10 to 1 ranks"));
  *message.mutable_signal()->mutable_key() = KeyOf(kJob2);
  Say(message);
  EXPECT_THAT(launcher_->Take(), IsEmpty());
}

TEST_F(AgentCoreTest, ReportsWhatADeadShimLeavesOnlyAfterTheSweep) {
  StartAgent();
  Connect();
  RunBoth(kJob1);
  TellExited(kJob1, 5, 1, 0);
  TakeEvents();
  Die(kJob1, "the supervisor died");
  EXPECT_THAT(launcher_->Take(), ElementsAre("sweep j1/1"));
  EXPECT_THAT(TakeEventWords(), IsEmpty());
  Launcher::SweepResult result;
  result.logs = {{0, 5}, {1, 6}};
  Swept(kJob1, result);
  EXPECT_THAT(TakeEventWords(), ElementsAre("5 lost 0", "6 log 0 5", "7 log 1 6", "8 stopped"));
  EXPECT_THAT(launcher_->Take(), IsEmpty()) << "there is no shim to quit";
  Assign(Assignment(kJob1, 3, v1::Assignment::RELEASED));
  EXPECT_THAT(launcher_->Take(), ElementsAre("release j1/1"));
}

TEST_F(AgentCoreTest, FailsThePreparationWhenTheShimCannotBeStarted) {
  StartAgent();
  Connect();
  Assign(Prepare(kJob1));
  Die(kJob1, "cannot start it: out of memory");
  Swept(kJob1);
  EXPECT_THAT(TakeEventWords(),
              ElementsAre("1 prepare failed: cannot start it: out of memory", "2 stopped"));
  EXPECT_THAT(launcher_->Take(), ElementsAre("launch j1/1", "sweep j1/1"));
}

TEST_F(AgentCoreTest, AnswersAStopOfWhatItDoesNotHold) {
  StartAgent();
  Connect();
  Assign(Assignment(kJob1, 7, v1::Assignment::STOPPED));
  EXPECT_THAT(TakeEventWords(), ElementsAre("1 stopped"));
  EXPECT_THAT(launcher_->Take(), IsEmpty());
  Assign(Prepare(kJob1, 6));
  EXPECT_THAT(launcher_->Take(), IsEmpty()) << "a late message of a lower generation";
  Assign(Assignment(kJob1, 8, v1::Assignment::RELEASED));
  EXPECT_THAT(launcher_->Take(), ElementsAre("release j1/1"));
}

TEST_F(AgentCoreTest, NeverRunsWhatItDidNotPrepare) {
  StartAgent();
  v1::Assignment run = Prepare(kJob1, 2);
  run.set_desired(v1::Assignment::RUNNING);
  run.mutable_rendezvous()->set_address("10.0.0.1");
  Connect({run});
  EXPECT_THAT(launcher_->Take(), IsEmpty());
  EXPECT_THAT(TakeEventWords(), ElementsAre("1 lost 0", "2 lost 1", "3 stopped"));
}

TEST_F(AgentCoreTest, FailsThePreparationWithoutALaunchSpecification) {
  StartAgent();
  Connect();
  Assign(Assignment(kJob1, 1, v1::Assignment::PREPARED));
  EXPECT_THAT(
      TakeEventWords(),
      ElementsAre("1 prepare failed: the coordinator sent no launch specification", "2 stopped"));
}

TEST_F(AgentCoreTest, IgnoresAssignmentsThatMakeNoSense) {
  StartAgent();
  Connect();
  v1::Assignment bad = Prepare(kJob1);
  bad.mutable_key()->set_job_id("../../etc");
  Assign(bad);
  EXPECT_THAT(launcher_->Take(), IsEmpty());
  EXPECT_EQ(observer_.errors.size(), 1u);
  EXPECT_FALSE(sink_->closed.has_value());
}

TEST_F(AgentCoreTest, StopsAndForgetsWhatTheSnapshotDoesNotHave) {
  StartAgent();
  Connect();
  RunBoth(kJob1);
  core_->OnDisconnected(absl::UnavailableError("gone"));
  Connect({}, 3);
  EXPECT_THAT(launcher_->Take(), ElementsAre("stop j1/1 grace 3000"));
  TellStopped(kJob1, 5);
  EXPECT_THAT(launcher_->Take(), ElementsAre("release j1/1"));
  EXPECT_TRUE(core_->state().attempts.empty());
  EXPECT_THAT(TakeEventWords(), ElementsAre("4 lost 0", "5 lost 1", "6 stopped"));
}

TEST_F(AgentCoreTest, KeepsRanksRunningWhileTheCoordinatorIsAway) {
  StartAgent();
  Connect();
  RunBoth(kJob1);
  core_->OnDisconnected(absl::UnavailableError("gone"));
  queue_.RunFor(seconds(3600));
  EXPECT_THAT(launcher_->Take(), IsEmpty());
  EXPECT_THAT(launcher_->renewals, IsEmpty()) << "no lease without a policy";
  Connect({Run(kJob1)}, 3);
  EXPECT_THAT(launcher_->Take(), IsEmpty());
}

TEST_F(AgentCoreTest, AdoptsShimsAfterACrashAndTellsEverythingOnce) {
  StartAgent();
  Connect();
  RunBoth(kJob1);
  Ack(2);
  StartAgent();
  EXPECT_THAT(launcher_->Take(), ElementsAre("adopt j1/1 from 5"));
  EXPECT_THAT(observer_.Take(), Contains("attempt 1 ranks 2"));
  Connect({Run(kJob1)}, 2);
  EXPECT_THAT(TakeEventWords(), ElementsAre("3 started 1"));
  TellStarted(kJob1, 4, 1);
  TellExited(kJob1, 5, 0, 0);
  TellExited(kJob1, 5, 0, 0);
  EXPECT_THAT(TakeEventWords(), ElementsAre("4 exited 0 0"));
}

TEST_F(AgentCoreTest, LaunchesAgainWhatNeverCameToLife) {
  StartAgent();
  Connect();
  Assign(Prepare(kJob1));
  StartAgent();
  EXPECT_THAT(launcher_->Take(), ElementsAre("adopt j1/1 from 1"));
  Die(kJob1, "nothing there");
  Swept(kJob1);
  EXPECT_THAT(launcher_->Take(), ElementsAre("sweep j1/1")) << "not before the coordinator agrees";
  Connect({Assignment(kJob1, 1, v1::Assignment::PREPARED)});
  EXPECT_THAT(launcher_->Take(), ElementsAre("launch j1/1"));
}

TEST_F(AgentCoreTest, QuitsTheShimOfAnAttemptThatEndedBeforeACrash) {
  StartAgent();
  Connect();
  RunBoth(kJob1);
  // Dies between the record and the command to quit.
  persist_ = Persist::kKept;
  TellStopped(kJob1, 5);
  persist_ = Persist::kDone;
  StartAgent();
  EXPECT_THAT(launcher_->Take(), ElementsAre("adopt j1/1 from 6", "quit j1/1"));
}

TEST_F(AgentCoreTest, RemovesAttemptsThatTheJournalDoesNotKnow) {
  on_disk_ = {kJob1, kJob2};
  StartAgent();
  EXPECT_THAT(launcher_->Take(), ElementsAre("sweep j1/1", "sweep j2/1"));
  Connect();
  // The coordinator wants one of them anew: not before the old one is gone.
  Assign(Prepare(kJob1));
  EXPECT_THAT(launcher_->Take(), IsEmpty());
  Swept(kJob1);
  EXPECT_THAT(launcher_->Take(), ElementsAre("release j1/1", "launch j1/1"));
  Swept(kJob2);
  EXPECT_THAT(launcher_->Take(), ElementsAre("release j2/1"));
  EXPECT_THAT(TakeEventWords(), IsEmpty());
}

TEST_F(AgentCoreTest, KeepsWhatItDoesNotKnowWhileThatCannotBeKilled) {
  on_disk_ = {kJob1};
  StartAgent();
  launcher_->Take();
  Launcher::SweepResult still_there;
  still_there.unkillable = {"pid 7"};
  Swept(kJob1, still_there);
  EXPECT_THAT(launcher_->Take(), IsEmpty());
  queue_.RunFor(seconds(11));
  EXPECT_THAT(launcher_->Take(), ElementsAre("sweep j1/1"));
  Swept(kJob1);
  EXPECT_THAT(launcher_->Take(), ElementsAre("release j1/1"));
}

TEST_F(AgentCoreTest, BeginsAnewAfterAReboot) {
  StartAgent();
  Connect({}, 0, 5);
  RunBoth(kJob1);
  const std::string journal = core_->state().journal_id;
  options_.boot_id = "boot-2";
  on_disk_ = {kJob1};
  StartAgent();
  EXPECT_NE(core_->state().journal_id, journal);
  EXPECT_EQ(core_->state().epoch, 5u);
  EXPECT_THAT(launcher_->Take(), ElementsAre("sweep j1/1"));
  Dial();
  const v1::Hello& hello = sink_->sent.at(0).hello();
  EXPECT_EQ(hello.boot_id(), "boot-2");
  EXPECT_EQ(hello.attempts_size(), 0);
}

TEST_F(AgentCoreTest, NamesRanksWhoseRecordsAreMissing) {
  StartAgent();
  Connect();
  RunBoth(kJob1);
  TakeEvents();
  TellExited(kJob1, 6, 0, 0);
  TellStopped(kJob1, 7);
  EXPECT_EQ(observer_.errors.size(), 1u);
  EXPECT_THAT(TakeEventWords(), ElementsAre("4 exited 0 0", "5 lost 1", "6 stopped"));
}

TEST_F(AgentCoreTest, TellsOnceMoreWhenWhatCouldNotBeKilledIsGone) {
  StartAgent();
  Connect();
  RunBoth(kJob1);
  TellExited(kJob1, 5, 1, 0);
  TakeEvents();
  internal::ShimRecord record = Record(6);
  record.mutable_stopped()->add_unkillable("rank 0: pid 7");
  Tell(kJob1, record);
  EXPECT_THAT(TakeEventWords(), ElementsAre("5 lost 0", "6 stopped"));
  EXPECT_THAT(launcher_->Take(), ElementsAre("quit j1/1"));
  // The shim stays until the process is gone, over a restart of the agent too.
  StartAgent();
  Connect({Assignment(kJob1, 3, v1::Assignment::STOPPED)}, 6);
  launcher_->Take();
  Die(kJob1, "exited");
  EXPECT_THAT(launcher_->Take(), ElementsAre("sweep j1/1"));
  Launcher::SweepResult still_there;
  still_there.unkillable = {"pid 7"};
  Swept(kJob1, still_there);
  EXPECT_THAT(TakeEventWords(), IsEmpty());
  queue_.RunFor(seconds(11));
  EXPECT_THAT(launcher_->Take(), ElementsAre("sweep j1/1"));
  // Nobody answered heartbeats meanwhile.
  Connect({Assignment(kJob1, 3, v1::Assignment::STOPPED)}, 6);
  Swept(kJob1);
  EXPECT_THAT(TakeEventWords(), ElementsAre("7 stopped"));
  queue_.RunFor(seconds(30));
  EXPECT_THAT(launcher_->Take(), IsEmpty());
}

TEST_F(AgentCoreTest, ForgetsNothingThatCouldNotBeKilledWhileItIsThere) {
  StartAgent();
  Connect();
  RunBoth(kJob1);
  internal::ShimRecord record = Record(5);
  record.mutable_stopped()->add_unkillable("rank 0: pid 7");
  Tell(kJob1, record);
  launcher_->Take();
  Assign(Assignment(kJob1, 3, v1::Assignment::RELEASED));
  EXPECT_THAT(launcher_->Take(), IsEmpty()) << "its leases and its files are still in use";
  Die(kJob1, "exited");
  Swept(kJob1);
  EXPECT_THAT(launcher_->Take(), ElementsAre("sweep j1/1", "release j1/1"));
  EXPECT_TRUE(core_->state().attempts.empty());
}

TEST_F(AgentCoreTest, SweepsAgainWhatADeadShimLeftUnkillable) {
  StartAgent();
  Connect();
  RunBoth(kJob1);
  TakeEvents();
  Die(kJob1, "the supervisor died");
  Launcher::SweepResult still_there;
  still_there.unkillable = {"pid 7"};
  Swept(kJob1, still_there);
  EXPECT_EQ(TakeEvents().back().attempt_stopped().unkillable_size(), 1);
  EXPECT_THAT(launcher_->Take(), ElementsAre("sweep j1/1"));
  queue_.RunFor(seconds(11));
  EXPECT_THAT(launcher_->Take(), ElementsAre("sweep j1/1"));
  Swept(kJob1);
  EXPECT_EQ(core_->state().events.back().attempt_stopped().unkillable_size(), 0);
  queue_.RunFor(seconds(30));
  EXPECT_THAT(launcher_->Take(), IsEmpty());
}

TEST_F(AgentCoreTest, PassesTheTestHookOn) {
  options_.fake_unkillable_rank = 1;
  StartAgent();
  Connect();
  Assign(Prepare(kJob1));
  EXPECT_EQ(launcher_->bootstraps.at(kJob1).fake_unkillable_rank(), 1u);
}

}  // namespace
}  // namespace muster::testing
