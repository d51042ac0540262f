// Stories of a job that is started again after a failure.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(Restart, BeginsANewAttemptOnceEverythingOfTheOldIsGone) {
  World world;
  v1::JobSpec spec = world.Spec({"node-1", "node-2"});
  spec.mutable_restart()->set_max_attempts(2);
  spec.mutable_restart()->add_on("rank-failed");
  const JobId job = world.SubmitAndStart(spec);
  world.Exited(3, 7);
  world.Stopped("node-1");
  EXPECT_EQ(world.Agent("node-1").Find(job, 2), nullptr);
  world.Stopped("node-2");
  EXPECT_EQ(world.Agent("node-1").Desired(job, 2), Assignment::PREPARED);
  v1::Job view = world.Job(job);
  EXPECT_EQ(view.state(), v1::Job::PREPARING);
  EXPECT_EQ(view.attempt(), 2u);
  EXPECT_THAT(view.warnings(0), HasSubstr("attempt 1 of 2 failed, trying again: rank 3 on node-2"));
  world.PreparedAll();
  world.StartedAll();
  world.Exited(0, 8);
  world.StoppedAll();
  view = world.Job(job);
  EXPECT_EQ(view.state(), v1::Job::FAILED) << "two attempts were asked for";
  EXPECT_EQ(view.exit_code(), 8);
}

TEST(Restart, NeverRunsBesideALostNodeThatMayStillRun) {
  World world;
  v1::JobSpec spec = world.Spec({"node-1", "node-2"});
  spec.mutable_restart()->set_max_attempts(3);
  spec.mutable_restart()->add_on("node-lost");
  const JobId job = world.SubmitAndStart(spec);
  world.Disconnect("node-2");
  world.Run(seconds(12));
  world.Stopped("node-1");
  EXPECT_EQ(world.Job(job).state(), v1::Job::PENDING);
  world.Connect("node-2");
  EXPECT_EQ(world.Agent("node-2").Desired(job, 1), Assignment::STOPPED);
  EXPECT_EQ(world.Job(job).state(), v1::Job::PENDING);
  EXPECT_THAT(world.Job(job).reason(),
              HasSubstr("node-2 has not confirmed that attempt 1 is gone"));
  v1::Event stopped = world.EventOf("node-2", 1);
  stopped.mutable_attempt_stopped();
  world.Tell("node-2", stopped);
  EXPECT_EQ(world.Job(job).state(), v1::Job::PREPARING);
  EXPECT_EQ(world.Job(job).attempt(), 2u);
}

TEST(Restart, ABootOfTheLostNodeFencesIt) {
  World world;
  v1::JobSpec spec = world.Spec({"node-1", "node-2"});
  spec.mutable_restart()->set_max_attempts(3);
  const JobId job = world.SubmitAndStart(spec);
  world.Disconnect("node-2");
  world.Run(seconds(12));
  world.Stopped("node-1");
  FakeAgent& agent = world.Agent("node-2");
  agent.hello.set_boot_id("another");
  agent.hello.set_journal_id("another");
  agent.journal.clear();
  agent.acked_seq = 0;
  agent.assignments.clear();
  world.Connect("node-2");
  EXPECT_EQ(world.Job(job).state(), v1::Job::PREPARING);
  EXPECT_EQ(world.Job(job).attempt(), 2u);
}

TEST(Restart, TheUsersCancelForbidsAnother) {
  World world;
  v1::JobSpec spec = world.Spec({"node-1"});
  spec.mutable_restart()->set_max_attempts(3);
  const JobId job = world.SubmitAndStart(spec);
  world.Exited(0, 7);
  world.Cancel(job, SIGINT);
  world.Stopped("node-1");
  EXPECT_EQ(world.Job(job).state(), v1::Job::FAILED);
  EXPECT_EQ(world.Job(job).exit_code(), 7);
}

TEST(Restart, IsNotForWhatWasNotNamed) {
  World world;
  v1::JobSpec spec = world.Spec({"node-1"});
  spec.mutable_restart()->set_max_attempts(3);
  spec.mutable_restart()->add_on("node-lost");
  const JobId job = world.SubmitAndStart(spec);
  world.Exited(0, 7);
  world.Stopped("node-1");
  EXPECT_EQ(world.Job(job).state(), v1::Job::FAILED);
}

}  // namespace
}  // namespace muster::testing
