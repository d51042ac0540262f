// Stories of an end: first failure, cancel, time limit, and what the status of the job is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>

#include "coordinator/core/proto_time.h"
#include "tests/unit/coordinator_core/world.h"

namespace muster::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using v1::Assignment;

int64_t GraceOf(const FakeAgent& agent, const JobId& job) {
  return agent.Find(job)->stop_grace().seconds();
}

TEST(FirstFailure, StopsTheOthersAndIsTheStatusOfTheJob) {
  World world;
  v1::JobSpec spec = world.Spec({"node-1", "node-2"});
  spec.mutable_grace()->set_seconds(7);
  const JobId job = world.SubmitAndStart(spec);
  world.Exited(3, 7);
  EXPECT_EQ(world.Job(job).state(), v1::Job::STOPPING);
  for (const char* node : {"node-1", "node-2"}) {
    EXPECT_EQ(world.Agent(node).Desired(job), Assignment::STOPPED);
    EXPECT_EQ(GraceOf(world.Agent(node), job), 7);
  }
  world.Killed(0, SIGTERM);
  world.Killed(1, SIGKILL);
  world.Killed(2, SIGTERM);
  world.Stopped("node-1");
  EXPECT_EQ(world.Job(job).state(), v1::Job::STOPPING) << "node-2 is not done";
  world.Stopped("node-2");

  const v1::Job view = world.Job(job);
  EXPECT_EQ(view.state(), v1::Job::FAILED);
  EXPECT_EQ(view.cause(), v1::Job::RANK_FAILED);
  EXPECT_EQ(view.exit_code(), 7);
  EXPECT_EQ(view.stopped_ranks(), 3u);
  EXPECT_TRUE(view.first_failure().has_rank());
  EXPECT_EQ(view.first_failure().rank(), 3u);
  EXPECT_EQ(view.first_failure().host(), "node-2");
  EXPECT_EQ(view.first_failure().pid(), 1003);
  EXPECT_EQ(view.first_failure().status().exit_code(), 7);
  EXPECT_EQ(view.reason(), "rank 3 on node-2 (pid 1003) exited with code 7");
}

TEST(FirstFailure, ASignalCounts128More) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1"}));
  world.Killed(1, SIGKILL, true);
  world.StoppedAll();
  const v1::Job view = world.Job(job);
  EXPECT_EQ(view.exit_code(), 137);
  EXPECT_THAT(view.reason(), HasSubstr("was killed by SIGKILL (out of memory)"));
}

TEST(FirstFailure, IsTheEarliestByTheClockOfItsSourceAmongThoseKnownAtTheDecision) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1", "node-2"}));
  // Both arrive while the store is busy, and are decided about together.
  world.disk().latency = milliseconds(50);
  world.LogClosed(0, 1);
  v1::Event late = world.EventOf("node-1");
  late.mutable_rank_exited()->set_rank(0);
  late.mutable_rank_exited()->mutable_status()->set_exit_code(1);
  *late.mutable_event_time() = ToTimestamp(world.clock().WallNow());
  v1::Event early = world.EventOf("node-2");
  early.mutable_rank_exited()->set_rank(2);
  early.mutable_rank_exited()->mutable_status()->set_exit_code(9);
  *early.mutable_event_time() = ToTimestamp(world.clock().WallNow() - milliseconds(3));
  world.Tell("node-1", late);
  world.Tell("node-2", early);
  world.Run(seconds(1));
  world.StoppedAll();
  world.Run(seconds(1));
  EXPECT_EQ(world.Job(job).exit_code(), 9);
  EXPECT_EQ(world.Job(job).first_failure().rank(), 2u);
}

TEST(FirstFailure, WhatOurOwnStopDidIsNeverTheCause) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1", "node-2"}));
  world.Exited(0, 3);
  // Earlier by its own clock, which is wrong, but it came after the decision.
  v1::Event event = world.EventOf("node-2");
  event.mutable_rank_exited()->set_rank(2);
  event.mutable_rank_exited()->mutable_status()->set_signal(SIGTERM);
  *event.mutable_event_time() = ToTimestamp(world.clock().WallNow() - seconds(60));
  world.Tell("node-2", event);
  world.StoppedAll();
  EXPECT_EQ(world.Job(job).exit_code(), 3);
}

TEST(FirstFailure, ARankThatEndsWith0EarlyEndsNothing) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1", "node-2"}));
  world.Exited(0, 0);
  world.Exited(1, 0);
  world.Stopped("node-1");
  world.Run(seconds(60));
  EXPECT_EQ(world.Job(job).state(), v1::Job::RUNNING);
  world.Exited(2, 0);
  world.Exited(3, 4);
  world.StoppedAll();
  EXPECT_EQ(world.Job(job).exit_code(), 4);
}

TEST(ExecFailure, Is127WhenTheProgramIsNotFoundAnd126Otherwise) {
  struct Case {
    const char* step;
    int error_number;
    int exit_code;
  };
  for (const Case& c : {Case{"execve", ENOENT, 127}, Case{"execve", EACCES, 126},
                        Case{"execve", ENOEXEC, 126}, Case{"chdir", ENOENT, 126}}) {
    World world;
    const JobId job = world.SubmitAndStart(world.Spec({"node-1"}, 1));
    world.ExecFailed(0, c.step, c.error_number);
    world.StoppedAll();
    const v1::Job view = world.Job(job);
    EXPECT_EQ(view.cause(), v1::Job::EXEC_FAILED);
    EXPECT_EQ(view.exit_code(), c.exit_code) << c.step << " " << c.error_number;
    EXPECT_THAT(view.reason(), HasSubstr("could not be executed: it did not work"));
  }
}

TEST(Lost, ARankThatNobodyCanVouchForHasNoStatus) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1"}));
  world.Lost(0, "the process that supervised the ranks died");
  world.Lost(1, "the process that supervised the ranks died");
  world.StoppedAll();
  const v1::Job view = world.Job(job);
  EXPECT_EQ(view.state(), v1::Job::FAILED);
  EXPECT_EQ(view.cause(), v1::Job::NODE_LOST);
  EXPECT_EQ(view.exit_code(), 121);
  EXPECT_EQ(view.ranks(0).state(), v1::JobRank::LOST);
  EXPECT_FALSE(view.ranks(0).has_status());
  EXPECT_THAT(view.reason(), AllOf(HasSubstr("rank 0 on node-1"), HasSubstr("supervised")));
}

TEST(Lost, ANodeThatStoppedByItselfIsTheCauseAndNotItsSignals) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1", "node-2"}));
  world.Killed(2, SIGTERM);
  EXPECT_EQ(world.Job(job).state(), v1::Job::STOPPING);
  world.Killed(3, SIGTERM);
  world.Stopped("node-2", "no word from the coordinator for 6s");
  world.Stopped("node-1");
  const v1::Job view = world.Job(job);
  EXPECT_EQ(view.cause(), v1::Job::NODE_LOST);
  EXPECT_EQ(view.exit_code(), 121);
  EXPECT_FALSE(view.first_failure().has_rank());
  EXPECT_THAT(view.reason(), AllOf(HasSubstr("node-2"), HasSubstr("no word")));
}

TEST(Lost, ARealFailureBeforeANodeStoppedByItselfStaysTheCause) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1"}));
  world.Exited(0, 5);
  world.Killed(1, SIGTERM);
  world.Stopped("node-1", "no word from the coordinator for 6s");
  const v1::Job view = world.Job(job);
  EXPECT_EQ(view.cause(), v1::Job::RANK_FAILED);
  EXPECT_EQ(view.exit_code(), 5);
  EXPECT_THAT(view.reason(), HasSubstr("no word"));
}

TEST(Lost, RanksThatEndedWith0BecauseTheirNodeStoppedThemAreNoSuccess) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1"}));
  world.Exited(0, 0);
  world.Exited(1, 0);
  world.Stopped("node-1", "no word from the coordinator for 6s");
  EXPECT_EQ(world.Job(job).state(), v1::Job::FAILED);
  EXPECT_EQ(world.Job(job).exit_code(), 121);
}

TEST(Lost, ANodeThatIsDoneWithoutExitRecordsIsNoSuccess) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1"}));
  world.Exited(0, 0);
  world.Stopped("node-1");
  const v1::Job view = world.Job(job);
  EXPECT_EQ(view.state(), v1::Job::FAILED);
  EXPECT_EQ(view.exit_code(), 121);
  EXPECT_EQ(view.ranks(1).state(), v1::JobRank::LOST);
}

TEST(Unkillable, MakesAnyOutcomeAFailureAndIsNamed) {
  World world;
  JobId job = world.SubmitAndStart(world.Spec({"node-1"}));
  world.Exited(0, 0);
  world.Exited(1, 0);
  world.Unkillable("node-1", "rank 1 (pid 1001): in state D");
  v1::Job view = world.Job(job);
  EXPECT_EQ(view.state(), v1::Job::FAILED);
  EXPECT_EQ(view.exit_code(), 121);
  EXPECT_THAT(view.reason(),
              HasSubstr("could not be killed: rank 1 (pid 1001): in state D on node-1"));

  job = world.SubmitAndStart(world.Spec({"node-2"}));
  world.Exited(0, 3);
  world.Unkillable("node-2", "rank 1 (pid 1001): in state D");
  view = world.Job(job);
  EXPECT_EQ(view.exit_code(), 3) << "the cause stays the cause";
  EXPECT_THAT(view.reason(), AllOf(HasSubstr("code 3"), HasSubstr("could not be killed")));
}

TEST(Unkillable, ANodeThatIsCleanAfterAllIsReleased) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1"}));
  world.Exited(0, 0);
  world.Exited(1, 0);
  world.Unkillable("node-1", "rank 1 (pid 1001): in state D");
  EXPECT_NE(world.Agent("node-1").Find(job), nullptr) << "its slots stay withheld";
  world.Stopped("node-1");
  EXPECT_EQ(world.Agent("node-1").Find(job), nullptr);
  EXPECT_EQ(world.Job(job).state(), v1::Job::FAILED);
}

TEST(Cancel, OfARunningJobStopsItAndGivesTheStatusOfTheSignal) {
  for (const auto& [signal, exit_code] :
       {std::pair{SIGINT, 130}, {SIGTERM, 143}, {SIGHUP, 129}, {0, 143}}) {
    World world;
    const JobId job = world.SubmitAndStart(world.Spec({"node-1", "node-2"}));
    EXPECT_EQ(world.Cancel(job, signal).state(), v1::Job::STOPPING);
    EXPECT_EQ(GraceOf(world.Agent("node-1"), job), 30);
    world.Killed(0, SIGTERM);
    world.Exited(1, 0);
    world.Exited(2, 9);
    world.Killed(3, SIGKILL);
    world.StoppedAll();
    const v1::Job view = world.Job(job);
    EXPECT_EQ(view.state(), v1::Job::CANCELLED);
    EXPECT_EQ(view.cause(), v1::Job::USER);
    EXPECT_EQ(view.exit_code(), exit_code);
    EXPECT_FALSE(view.has_first_failure());
  }
}

TEST(Cancel, ASecondOneWithAShorterGraceShortensTheFirst) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1"}));
  world.Cancel(job, SIGINT);
  const uint64_t generation = world.Agent("node-1").Find(job)->generation();
  world.Cancel(job, SIGINT, 0);
  EXPECT_EQ(GraceOf(world.Agent("node-1"), job), 0);
  EXPECT_GT(world.Agent("node-1").Find(job)->generation(), generation);
  // A longer one changes nothing, and neither does a repetition.
  const size_t messages = world.Agent("node-1").inbox.size();
  world.Cancel(job, SIGINT, 60);
  world.Cancel(job, SIGINT, 0);
  EXPECT_EQ(world.Agent("node-1").inbox.size(), messages);
  world.StoppedAll();
  EXPECT_EQ(world.Job(job).exit_code(), 130);
}

TEST(Cancel, ShortensTheGraceOfAStopThatIsOnItsWay) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1"}));
  world.Exited(0, 6);
  EXPECT_EQ(GraceOf(world.Agent("node-1"), job), 30);
  world.Cancel(job, SIGINT, 2);
  EXPECT_EQ(GraceOf(world.Agent("node-1"), job), 2);
  world.StoppedAll();
  const v1::Job view = world.Job(job);
  EXPECT_EQ(view.state(), v1::Job::FAILED) << "its fate was decided before";
  EXPECT_EQ(view.exit_code(), 6);
}

TEST(Cancel, OfAWaitingJobEndsItAtOnce) {
  World world;
  const JobId job = world.Submit(world.Spec({"node-1"}));
  const v1::Job view = world.Cancel(job, SIGINT);
  EXPECT_EQ(view.state(), v1::Job::CANCELLED);
  EXPECT_EQ(view.exit_code(), 130);
  world.Join("node-1");
  EXPECT_EQ(world.Agent("node-1").Find(job), nullptr);
}

TEST(Cancel, WhileNodesPrepareStartsNothing) {
  World world;
  world.JoinAll({"node-1", "node-2"});
  const JobId job = world.Submit(world.Spec({"node-1", "node-2"}));
  world.Prepared("node-1");
  world.Cancel(job, SIGTERM);
  world.Prepared("node-2");
  EXPECT_EQ(world.Agent("node-1").Desired(job), Assignment::STOPPED);
  EXPECT_EQ(world.Agent("node-2").Desired(job), Assignment::STOPPED);
  world.StoppedAll();
  const v1::Job view = world.Job(job);
  EXPECT_EQ(view.state(), v1::Job::CANCELLED);
  EXPECT_EQ(view.exit_code(), 143);
  for (const v1::JobRank& rank : view.ranks()) EXPECT_EQ(rank.state(), v1::JobRank::WAITING);
}

TEST(Cancel, TogetherWithTheLastPreparedStartsNothing) {
  World world;
  world.Join("node-1");
  const JobId job = world.Submit(world.Spec({"node-1"}));
  world.disk().latency = milliseconds(10);
  v1::CancelJobRequest request;
  request.set_job_id(job.value());
  world.core().CancelJob(request, {"alice"}, [](absl::StatusOr<v1::Job>) {});
  world.Prepared("node-1");
  world.Run(seconds(1));
  for (const auto& message : world.Agent("node-1").inbox) {
    EXPECT_NE(message.assignment().desired(), Assignment::RUNNING);
  }
}

TEST(Cancel, TogetherWithTheLossOfEveryNodeEndsTheJob) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1"}));
  world.disk().latency = milliseconds(10);
  v1::CancelJobRequest request;
  request.set_job_id(job.value());
  request.set_signal(SIGINT);
  world.LogClosed(0, 1);
  world.core().CancelJob(request, {"alice"}, [](absl::StatusOr<v1::Job>) {});
  world.Disconnect("node-1");
  FakeAgent& agent = world.Agent("node-1");
  agent.hello.set_journal_id("another");
  agent.journal.clear();
  agent.acked_seq = 0;
  agent.assignments.clear();
  world.Connect("node-1");
  world.Run(seconds(1));
  EXPECT_EQ(world.Job(job).state(), v1::Job::CANCELLED);
  EXPECT_EQ(world.Job(job).exit_code(), 130);
}

TEST(Cancel, OfAnEndedJobChangesNothing) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1"}));
  world.FinishAll();
  EXPECT_EQ(world.Cancel(job, SIGINT).state(), v1::Job::SUCCEEDED);
  EXPECT_EQ(world.Job(job).exit_code(), 0);
}

TEST(Cancel, AfterEveryRankEndedWith0IsSuccess) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1"}));
  world.Exited(0, 0);
  world.Exited(1, 0);
  world.Cancel(job, SIGINT);
  world.StoppedAll();
  EXPECT_EQ(world.Job(job).state(), v1::Job::SUCCEEDED);
}

TEST(Cancel, RefusesNonsense) {
  World world;
  const JobId job = world.Submit(world.Spec({"node-1"}));
  v1::CancelJobRequest request;
  request.set_job_id("nosuch");
  EXPECT_EQ(world.TryCancel(request).status().code(), absl::StatusCode::kNotFound);
  request.set_job_id(job.value());
  request.set_signal(99);
  EXPECT_EQ(world.TryCancel(request).status().code(), absl::StatusCode::kInvalidArgument);
  request.set_signal(2);
  request.mutable_grace()->set_seconds(-1);
  EXPECT_EQ(world.TryCancel(request).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(world.Job(job).state(), v1::Job::PENDING);
}

TEST(TimeLimit, StopsTheJobWith124) {
  World world;
  v1::JobSpec spec = world.Spec({"node-1"});
  spec.mutable_time_limit()->set_seconds(60);
  const JobId job = world.SubmitAndStart(spec);
  world.Run(seconds(59));
  EXPECT_EQ(world.Job(job).state(), v1::Job::RUNNING);
  world.Run(seconds(2));
  EXPECT_EQ(world.Agent("node-1").Desired(job), Assignment::STOPPED);
  world.Killed(0, SIGTERM);
  world.Killed(1, SIGTERM);
  world.StoppedAll();
  const v1::Job view = world.Job(job);
  EXPECT_EQ(view.state(), v1::Job::FAILED);
  EXPECT_EQ(view.cause(), v1::Job::TIME_LIMIT);
  EXPECT_EQ(view.exit_code(), 124);
  EXPECT_THAT(view.reason(), HasSubstr("1m"));
}

TEST(Stop, ANodeThatNeverConfirmsIsGivenUpAsLost) {
  World world;
  v1::JobSpec spec = world.Spec({"node-1", "node-2"});
  spec.mutable_grace()->set_seconds(5);
  const JobId job = world.SubmitAndStart(spec);
  world.Exited(0, 7);
  world.Stopped("node-1");
  world.Run(seconds(64));
  EXPECT_EQ(world.Job(job).state(), v1::Job::STOPPING);
  world.Run(seconds(2));
  const v1::Job view = world.Job(job);
  EXPECT_EQ(view.state(), v1::Job::FAILED);
  EXPECT_EQ(view.exit_code(), 7);
  EXPECT_EQ(view.nodes(1).phase(), v1::JobNode::LOST);
  EXPECT_EQ(view.ranks(2).state(), v1::JobRank::LOST);
}

}  // namespace
}  // namespace muster::testing
