#include "coordinator/cli/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/cli/sample_job.h"

namespace muster {
namespace {

using ::testing::AllOf;
using testing::Code;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::FailedJob;
using ::testing::HasSubstr;
using testing::Killed;
using ::testing::Not;
using testing::RunningJob;
using testing::SampleJob;
using testing::SucceededJob;

TEST(FailureReport, TellsWhoWhyAndWhere) {
  EndContext context;
  context.log_folder = "logs/j-demo";
  context.last_lines = {"Traceback", "ValueError: demo"};
  EXPECT_THAT(
      FailureReport(FailedJob(Code(5), 5), context),
      ElementsAre("rank 2 on node-2 (pid 102) exited with code 5",
                  "its last 2 lines:", "  | Traceback", "  | ValueError: demo",
                  "full log: logs/j-demo/rank_2.log", "3 other ranks were stopped because of it",
                  "job j-demo failed after 4.75 s, exit status 5"));
}

TEST(FailureReport, NamesTheCommandThatShowsTheLog) {
  EndContext context;
  context.log_command = "coordinator logs j-demo";
  EXPECT_THAT(FailureReport(FailedJob(Code(5), 5), context),
              Contains("full log: coordinator logs j-demo --rank 2"));
}

TEST(FailureReport, HintsAtTheOutOfMemoryKiller) {
  const auto lines = FailureReport(FailedJob(Killed(9), 137), EndContext());
  EXPECT_EQ(lines[0], "rank 2 on node-2 (pid 102) was killed by SIGKILL (signal 9)");
  EXPECT_THAT(lines[1], AllOf(HasSubstr("out-of-memory"), HasSubstr("node-2")));
  v1::ExitStatus status = Killed(9);
  status.set_oom_killed(true);
  EXPECT_THAT(FailureReport(FailedJob(status, 137), EndContext())[1], HasSubstr("oom_kill"));
}

TEST(FailureReport, TellsCardsThatWereNotReadyWhoeverFailedFirst) {
  v1::Job job = FailedJob(Code(5), 5);
  job.mutable_ranks(0)->mutable_status()->set_card_problem("module 4 is not ready");
  EXPECT_THAT(FailureReport(job, EndContext()),
              Contains("hint: [node-1] card of rank 0: module 4 is not ready"));
}

TEST(FailureReport, TellsNoMoreThanEightCards) {
  v1::Job job = FailedJob(Code(5), 5);
  const v1::JobRank rank = job.ranks(0);
  for (uint32_t i = 0; i < 10; ++i) {
    v1::JobRank& added = *job.add_ranks();
    added = rank;
    added.set_rank(4 + i);
    added.mutable_status()->set_card_problem("is not ready");
  }
  const auto lines = FailureReport(job, EndContext());
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(),
                          [](const std::string& line) { return line.ends_with("is not ready"); }),
            8);
  EXPECT_THAT(lines, Contains("hint: and 2 more cards"));
}

TEST(FailureReport, HintsAtSharedMemory) {
  EndContext context;
  context.local = true;
  context.shm_free_bytes = 1'500'000;
  context.shm_total_bytes = 64'000'000;
  EXPECT_THAT(FailureReport(FailedJob(Killed(7), 135), context)[1],
              AllOf(HasSubstr("/dev/shm"), HasSubstr("1.5 MB of 64.0 MB free")));
  EXPECT_THAT(FailureReport(FailedJob(Killed(7), 135), EndContext())[1],
              HasSubstr("df /dev/shm on node-2"));
}

TEST(FailureReport, TellsWhatCouldNotBeExecuted) {
  v1::ExitStatus status;
  status.mutable_exec_failure()->set_step("execve");
  status.mutable_exec_failure()->set_message("argument list too long: BIGVAR has 200007 bytes");
  v1::Job job = FailedJob(status, 126);
  job.set_cause(v1::Job::EXEC_FAILED);
  job.mutable_first_failure()->set_pid(0);
  EXPECT_EQ(FailureReport(job, EndContext())[0],
            "rank 2 on node-2 could not be started: argument list too long: BIGVAR has 200007 "
            "bytes");
}

TEST(FailureReport, FoldsEqualProblemsOfNodes) {
  v1::Job job = SampleJob();
  job.set_state(v1::Job::FAILED);
  job.set_cause(v1::Job::PREPARE_FAILED);
  job.set_exit_code(120);
  for (v1::JobNode& node : *job.mutable_nodes()) {
    node.set_phase(v1::JobNode::PREPARE_FAILED);
    v1::Problem* problem = node.add_problems();
    problem->set_check("cwd");
    problem->set_message("/no/such/dir does not exist");
  }
  v1::Problem* other = job.mutable_nodes(1)->add_problems();
  other->set_check("port");
  other->set_message("29533 is in use");
  EXPECT_THAT(FailureReport(job, EndContext()),
              ElementsAre("not started: 2 of 2 nodes cannot run the job",
                          "[node-1,node-2] cwd: /no/such/dir does not exist",
                          "[node-2] port: 29533 is in use", "job j-demo failed, exit status 120"));
}

TEST(FailureReport, NamesEveryMissingHost) {
  v1::Job job = SampleJob();
  job.set_state(v1::Job::FAILED);
  job.set_cause(v1::Job::NODE_MISSING);
  job.set_exit_code(120);
  EXPECT_EQ(FailureReport(job, EndContext())[0],
            "not started: no agent serves node-1, node-2 (2 of 2 hosts missing)");
  job.set_reason("1 of 2 hosts missing after 5s: node-2 (hosts:2)");
  EXPECT_EQ(FailureReport(job, EndContext())[0],
            "not started: 1 of 2 hosts missing after 5s: node-2 (hosts:2)");
}

TEST(FailureReport, NamesALostNodeAndItsRanks) {
  v1::Job job = RunningJob();
  job.set_state(v1::Job::FAILED);
  job.set_cause(v1::Job::NODE_LOST);
  job.set_exit_code(121);
  job.mutable_first_failure()->set_host("node-2");
  job.mutable_first_failure()->set_message("not heard of for 7 s");
  for (int rank : {2, 3}) {
    job.mutable_ranks(rank)->set_state(v1::JobRank::LOST);
    job.mutable_ranks(rank)->set_lost_reason("the node is lost");
  }
  const auto lines = FailureReport(job, EndContext());
  EXPECT_EQ(lines[0], "lost node node-2: not heard of for 7 s");
  EXPECT_EQ(lines[1], "ranks 2,3 on node-2: nobody can tell how they ended (the node is lost)");
}

TEST(FailureReport, TellsThatTheUserEndedIt) {
  v1::Job job = RunningJob();
  job.set_state(v1::Job::CANCELLED);
  job.set_cause(v1::Job::USER);
  job.set_exit_code(130);
  job.set_reason("SIGINT at the command");
  const auto lines = FailureReport(job, EndContext());
  EXPECT_EQ(lines.front(), "cancelled: SIGINT at the command");
  EXPECT_EQ(lines.back(), "job j-demo was cancelled, exit status 130");
}

TEST(FailureNotice, IsKnownBeforeTheCause) {
  v1::Job job = FailedJob(Code(5), 0);
  job.set_state(v1::Job::STOPPING);
  job.set_cause(v1::Job::CAUSE_UNSPECIFIED);
  EXPECT_THAT(FailureNotice(job, EndContext()),
              ElementsAre("rank 2 on node-2 (pid 102) exited with code 5"));
}

TEST(SuccessSummary, HasTheFigures) {
  EndContext context;
  context.log_folder = "logs/j-demo";
  EXPECT_THAT(SuccessSummary(SucceededJob(), context),
              ElementsAre("job j-demo succeeded: 4 ranks on 2 nodes, every rank ended with 0, "
                          "started in 0.25 s, ran 1 min 2 s",
                          "logs: logs/j-demo/rank_N.log, 0 bytes lost"));
  context.lost_bytes = 12;
  EXPECT_THAT(SuccessSummary(SucceededJob(), context)[1], HasSubstr("12 bytes LOST"));
}

TEST(WaitingFor, NamesWhoIsMissing) {
  v1::Job job = SampleJob();
  EXPECT_EQ(WaitingFor(job, 8), "waiting for 2 of 2 hosts: node-1, node-2");
  EXPECT_EQ(WaitingFor(job, 1), "waiting for 2 of 2 hosts: node-1 and 1 more");
  job.mutable_nodes(0)->set_node_id("node-1");
  EXPECT_EQ(WaitingFor(job, 8), "waiting for 1 of 2 hosts: node-2");
  job.set_reason("waiting for 1 of 2 hosts: node-2 (hosts:2)");
  EXPECT_EQ(WaitingFor(job, 8), job.reason());
}

TEST(WaitingFor, FollowsTheStart) {
  v1::Job job = SampleJob();
  job.set_state(v1::Job::PREPARING);
  job.mutable_nodes(0)->set_phase(v1::JobNode::PREPARED);
  job.mutable_nodes(1)->set_phase(v1::JobNode::PREPARING);
  EXPECT_EQ(WaitingFor(job, 8), "waiting for node-2 to get ready (1 of 2 nodes ready)");
  job = RunningJob();
  EXPECT_EQ(WaitingFor(job, 8), "");
  job.mutable_ranks(1)->set_state(v1::JobRank::WAITING);
  EXPECT_EQ(WaitingFor(job, 8), "waiting for 1 of 4 ranks to start");
}

TEST(NewWarnings, AreToldOnce) {
  v1::Job before = RunningJob();
  before.add_warnings("a");
  v1::Job after = before;
  after.add_warnings("b");
  EXPECT_THAT(NewWarnings(before, after), ElementsAre("warning: b"));
}

TEST(FormatSeconds, SuitsPeople) {
  EXPECT_EQ(FormatSeconds(0.1234), "0.12 s");
  EXPECT_EQ(FormatSeconds(12.34), "12.3 s");
  EXPECT_EQ(FormatSeconds(59.97), "1 min 0 s");
  EXPECT_EQ(FormatSeconds(192), "3 min 12 s");
  EXPECT_EQ(FormatSeconds(7380), "2 h 3 min");
  EXPECT_EQ(FormatSeconds(90000), "1 d 1 h");
}

TEST(FormatBytes, SuitsPeople) {
  EXPECT_EQ(FormatBytes(1), "1 byte");
  EXPECT_EQ(FormatBytes(999), "999 bytes");
  EXPECT_EQ(FormatBytes(1500), "1.5 kB");
  EXPECT_EQ(FormatBytes(60'000'000), "60.0 MB");
  EXPECT_EQ(FormatBytes(2'000'000'000'000), "2.0 TB");
}

}  // namespace
}  // namespace muster
