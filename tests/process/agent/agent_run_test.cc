#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include "tests/process/agent/agent_process.h"
#include "tests/process/agent/launcher_fixture.h"

namespace muster {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const AttemptId kFirst = UniqueAttempt("job-a");
const AttemptId kSecond = UniqueAttempt("job-b");

TEST_F(AgentTest, IntroducesItselfCompletely) {
  StartAgent();
  ASSERT_TRUE(coordinator_.Wait([](const auto& state) { return !state.hellos.empty(); }));
  const v1::Hello hello = coordinator_.Read().hellos[0];
  EXPECT_EQ(hello.node_id(), "node-under-test");
  EXPECT_FALSE(hello.boot_id().empty());
  EXPECT_FALSE(hello.agent_instance_id().empty());
  EXPECT_FALSE(hello.journal_id().empty());
  EXPECT_THAT(hello.facts().addresses(), ::testing::ElementsAre("127.0.0.1"));
  EXPECT_THAT(hello.facts().slots(), SizeIs(8));
  EXPECT_FALSE(hello.facts().hostname().empty());
  EXPECT_TRUE(coordinator_.Wait([](const auto& state) { return state.heartbeats >= 2; }));
}

TEST_F(AgentTest, IsSmallAndQuicklyThere) {
  StartAgent();
  ASSERT_TRUE(coordinator_.Wait([](const auto& state) { return state.heartbeats >= 3; }));
  const auto hello = coordinator_.Read().last_hello - agent_->started();
  const auto hello_us = std::chrono::duration_cast<std::chrono::microseconds>(hello).count();
  const long resident_kib = agent_->ResidentKib();
  std::printf("hello after %.1f ms, resident %ld KiB\n", static_cast<double>(hello_us) / 1000,
              resident_kib);
  // Bounds for a busy machine and any build; the figures of an idle one are in docs/.
  EXPECT_LT(hello_us, 5'000'000);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(resident_kib, 40 * 1024);
#endif
}

TEST_F(AgentTest, RunsAJobToItsEndAndForgetsIt) {
  StartAgent();
  Run(kFirst, 3, "echo rank $RANK at $MASTER_ADDR:$MASTER_PORT of $MUSTER_JOB_ID");
  ASSERT_TRUE(WaitFor(kFirst, v1::Event::kAttemptStopped));
  const auto ends = Events(kFirst, v1::Event::kRankExited);
  ASSERT_THAT(ends, SizeIs(3));
  for (const v1::Event& end : ends) {
    EXPECT_TRUE(end.rank_exited().status().has_exit_code());
    EXPECT_EQ(end.rank_exited().status().exit_code(), 0);
  }
  const uint32_t port = Events(kFirst, v1::Event::kPrepared)[0].prepared().rendezvous_port();
  for (uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(CompleteOutput(kFirst, rank),
              fmt::format("rank {} at 127.0.0.1:{} of {}\n", rank, port, kFirst.job.value()));
  }
  const int shim = ShimPid(kFirst);
  Release(kFirst);
  EXPECT_TRUE(WaitUntil([&] { return !Exists(AttemptDirectory(kFirst)); }));
  EXPECT_TRUE(WaitUntil([&] { return !Exists(fmt::format("/proc/{}", shim)); }));
}

TEST_F(AgentTest, TellsCodesAndSignals) {
  StartAgent();
  Run(kFirst, 2, "if [ $RANK = 0 ]; then exit 7; else kill -SEGV $$; fi");
  ASSERT_TRUE(WaitFor(kFirst, v1::Event::kAttemptStopped));
  for (const v1::Event& end : Events(kFirst, v1::Event::kRankExited)) {
    const v1::ExitStatus& status = end.rank_exited().status();
    if (end.rank_exited().rank() == 0) {
      EXPECT_EQ(status.exit_code(), 7);
    } else {
      EXPECT_EQ(status.signal(), SIGSEGV);
    }
  }
}

TEST_F(AgentTest, TellsEveryReasonWhyNothingStarts) {
  StartAgent();
  Run(kFirst, 1, "exec sleep 600");
  v1::Assignment assignment = Prepared(kSecond, 1, "exit 0");
  assignment.mutable_launch()->set_working_directory("/nonexistent");
  coordinator_.Want(assignment);
  ASSERT_TRUE(WaitFor(kSecond, v1::Event::kPrepareFailed));
  const v1::Event failed = Events(kSecond, v1::Event::kPrepareFailed)[0];
  std::vector<std::string> checks;
  for (const v1::Problem& problem : failed.prepare_failed().problems())
    checks.push_back(problem.check());
  EXPECT_THAT(checks, ::testing::UnorderedElementsAre("slot-lease", "working-directory"));
}

TEST_F(AgentTest, StopsRanksWhenTold) {
  StartAgent();
  // Only a rank that ignores the signal already can outlive it.
  Run(kFirst, 2,
      fmt::format("trap '' TERM; : >{}/deaf$RANK; while :; do sleep 0.05; done", temp_.path()));
  for (const int rank : {0, 1}) {
    ASSERT_TRUE(WaitUntil([&] { return Exists(fmt::format("{}/deaf{}", temp_.path(), rank)); }));
  }
  Stop(kFirst, milliseconds(200));
  ASSERT_TRUE(WaitFor(kFirst, v1::Event::kAttemptStopped));
  for (const v1::Event& end : Events(kFirst, v1::Event::kRankExited)) {
    EXPECT_EQ(end.rank_exited().status().signal(), SIGKILL);
  }
}

TEST_F(AgentTest, PassesSignalsOn) {
  StartAgent();
  Run(kFirst, 1, "trap 'echo got it; exit 5' USR1; echo ready >&2; while :; do sleep 0.02; done");
  // The trap is set when the line behind it is there.
  ASSERT_TRUE(coordinator_.Wait([&](const auto& state) {
    return state.logs.contains({kFirst, 0});
  }));
  coordinator_.Signal(kFirst, SIGUSR1);
  ASSERT_TRUE(WaitFor(kFirst, v1::Event::kRankExited));
  EXPECT_EQ(Events(kFirst, v1::Event::kRankExited)[0].rank_exited().status().exit_code(), 5);
  EXPECT_EQ(CompleteOutput(kFirst, 0), "got it\n");
}

TEST_F(AgentTest, RunsTwoAttemptsBesideEachOther) {
  StartAgent();
  Run(kFirst, 1, "exec sleep 600");
  v1::Assignment second = Prepared(kSecond, 1, "echo second");
  second.mutable_launch()->mutable_ranks(0)->set_slot(1);
  Run(second);
  ASSERT_TRUE(WaitFor(kSecond, v1::Event::kAttemptStopped));
  EXPECT_EQ(CompleteOutput(kSecond, 0), "second\n");
  EXPECT_THAT(Events(kFirst, v1::Event::kRankExited), IsEmpty());
  Stop(kFirst, milliseconds(1000));
  EXPECT_TRUE(WaitFor(kFirst, v1::Event::kAttemptStopped));
}

TEST_F(AgentTest, ShipsAFloodCompletely) {
  StartAgent();
  Run(kFirst, 2,
      "i=0; while [ $i -lt 40 ]; do head -c 500000 /dev/zero | tr '\\0' $RANK; i=$((i+1)); done");
  ASSERT_TRUE(WaitFor(kFirst, v1::Event::kAttemptStopped));
  EXPECT_EQ(CompleteOutput(kFirst, 0), std::string(20'000'000, '0'));
  EXPECT_EQ(CompleteOutput(kFirst, 1), std::string(20'000'000, '1'));
}

TEST_F(AgentTest, ASecondAgentOnTheSameStateIsRefused) {
  StartAgent();
  ASSERT_TRUE(coordinator_.Wait([](const auto& state) { return state.connected; }));
  AgentProcess second({"run", "--node-id", "other", "--coordinator", coordinator_.target(),
                       "--state-dir", temp_.path() + "/state"},
                      variables_);
  const std::optional<int> status = second.Wait();
  ASSERT_TRUE(status.has_value());
  EXPECT_TRUE(WIFEXITED(*status) && WEXITSTATUS(*status) == 1);
  EXPECT_THAT(coordinator_.Read().hellos, SizeIs(1));
}

TEST_F(AgentTest, HidesTheProxyOfTheUserFromItselfOnly) {
  variables_.push_back("http_proxy=http://127.0.0.1:9");
  StartAgent();
  Run(kFirst, 1, "echo $http_proxy");
  EXPECT_EQ(CompleteOutput(kFirst, 0), "http://127.0.0.1:9\n");
}

}  // namespace
}  // namespace muster
