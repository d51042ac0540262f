// Stories of a start: waiting for nodes, two levels, and what happens when it fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/coordinator_core/world.h"

namespace muster::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using v1::Assignment;

TEST(GangStart, RunsWhenEveryNodeIsPrepared) {
  World world;
  world.JoinAll({"node-1", "node-2"});
  const JobId job = world.Submit(world.Spec({"node-1", "node-2"}));
  EXPECT_EQ(world.Job(job).state(), v1::Job::PREPARING);
  EXPECT_EQ(world.Agent("node-1").Desired(job), Assignment::PREPARED);
  EXPECT_EQ(world.Agent("node-2").Desired(job), Assignment::PREPARED);

  world.Prepared("node-2");
  EXPECT_EQ(world.Agent("node-2").Desired(job), Assignment::PREPARED) << "nobody starts early";
  world.Prepared("node-1");
  for (const char* node : {"node-1", "node-2"}) {
    const Assignment& assignment = *world.Agent(node).Find(job);
    EXPECT_EQ(assignment.desired(), Assignment::RUNNING);
    EXPECT_EQ(assignment.generation(), 2u);
    EXPECT_EQ(assignment.rendezvous().address(), "10.0.0.1");
    EXPECT_EQ(assignment.rendezvous().port(), 29500u);
  }
  EXPECT_FALSE(world.Job(job).has_start_time());
  world.StartedAll();
  const v1::Job view = world.Job(job);
  EXPECT_EQ(view.state(), v1::Job::RUNNING);
  EXPECT_TRUE(view.has_start_time());
  EXPECT_EQ(view.world_size(), 4u);
  EXPECT_EQ(view.ranks(3).pid(), 1003);
  EXPECT_EQ(view.ranks(3).node_index(), 1u);
  EXPECT_EQ(view.ranks(3).local_rank(), 1u);
}

TEST(GangStart, EndsWithZeroWhenEveryRankDid) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1", "node-2"}));
  world.FinishAll();
  const v1::Job view = world.Job(job);
  EXPECT_EQ(view.state(), v1::Job::SUCCEEDED);
  EXPECT_EQ(view.cause(), v1::Job::NONE);
  EXPECT_EQ(view.exit_code(), 0);
  EXPECT_TRUE(view.has_end_time());
  EXPECT_FALSE(view.has_first_failure());
}

TEST(GangStart, TakesNoVirtualTimeInTheHappyPath) {
  World world;
  const TimePoint begin = world.clock().Now();
  world.SubmitAndStart(world.Spec({"node-1", "node-2"}));
  world.FinishAll();
  EXPECT_EQ(world.clock().Now(), begin);
}

TEST(GangStart, TellsTheNodeWhatToLaunch) {
  World world;
  world.Join("node-1");
  v1::JobSpec spec = world.Spec({"node-1"});
  spec.set_name("llama");
  v1::EnvAssignment& env = *spec.add_env();
  env.set_name("A");
  env.add_parts()->set_literal("b");
  const JobId job = world.Submit(spec);
  const v1::LaunchSpec& launch = world.Agent("node-1").Find(job)->launch();
  EXPECT_EQ(launch.ranks_size(), 2);
  EXPECT_EQ(launch.argv(0), "/bin/true");
  ASSERT_EQ(launch.env_size(), 1);
  EXPECT_EQ(launch.env(0).name(), "A");
  EXPECT_EQ(launch.holder(), "alice, job " + job.value() + " (llama)");
  EXPECT_EQ(launch.submitter(), "alice");
  EXPECT_TRUE(launch.has_rendezvous());
}

TEST(GangStart, SendsTheLaunchOnlyOnce) {
  World world;
  world.Join("node-1");
  world.Submit(world.Spec({"node-1"}));
  world.Prepared("node-1");
  int launches = 0;
  for (const auto& message : world.Agent("node-1").inbox) {
    launches += message.assignment().has_launch();
  }
  EXPECT_EQ(launches, 1);
}

TEST(GangStart, WaitsForMissingHostsAndSaysForWhom) {
  World world;
  world.Join("node-1");
  const JobId job = world.Submit(world.Spec({"node-1", "node-2"}));
  v1::Job view = world.Job(job);
  EXPECT_EQ(view.state(), v1::Job::PENDING);
  EXPECT_THAT(view.reason(), AllOf(HasSubstr("node-2 (hostfile:2)"), Not(HasSubstr("node-1"))));
  EXPECT_EQ(view.nodes(0).node_id(), "node-1");
  EXPECT_EQ(view.nodes(1).node_id(), "");
  world.Run(minutes(1));
  world.Join("node-2");
  EXPECT_EQ(world.Job(job).state(), v1::Job::PREPARING);
}

TEST(GangStart, NamesEveryMissingHostWhenTheTimeIsOver) {
  World world;
  world.Join("node-1");
  v1::JobSpec spec = world.Spec({"node-1", "node-2", "node-3"});
  spec.mutable_start_timeout()->set_seconds(5);
  const JobId job = world.Submit(spec);
  world.Run(milliseconds(4900));
  EXPECT_EQ(world.Job(job).state(), v1::Job::PENDING);
  world.Run(milliseconds(200));
  const v1::Job view = world.Job(job);
  EXPECT_EQ(view.state(), v1::Job::FAILED);
  EXPECT_EQ(view.cause(), v1::Job::NODE_MISSING);
  EXPECT_EQ(view.exit_code(), 120);
  EXPECT_THAT(view.reason(), AllOf(HasSubstr("2 of 3 hosts missing after 5s"),
                                   HasSubstr("node-2 (hostfile:2), node-3 (hostfile:3)"),
                                   Not(HasSubstr("node-1"))));
  EXPECT_EQ(world.Agent("node-1").Find(job), nullptr) << "nothing was started anywhere";
}

TEST(GangStart, RefusesTwoEntriesThatOneNodeServes) {
  World world;
  world.Join("node-1");
  const JobId job = world.Submit(world.Spec({"node-1", "10.0.0.1"}));
  world.Run(seconds(1));
  const v1::Job view = world.Job(job);
  EXPECT_EQ(view.state(), v1::Job::FAILED);
  EXPECT_EQ(view.exit_code(), 120);
  EXPECT_THAT(view.reason(), AllOf(HasSubstr("hostfile:1"), HasSubstr("hostfile:2")));
}

TEST(GangStart, FailsWhenANodeLacksTheSlots) {
  World world;
  world.Join("node-1", 2);
  const JobId job = world.Submit(world.Spec({"node-1"}, 8));
  const v1::Job view = world.Job(job);
  EXPECT_EQ(view.state(), v1::Job::FAILED);
  EXPECT_EQ(view.cause(), v1::Job::PREPARE_FAILED);
  EXPECT_EQ(view.exit_code(), 120);
  EXPECT_THAT(view.reason(), HasSubstr("node-1"));
}

TEST(GangStart, ShowsTheReasonsOfEveryNodeThatCannotPrepare) {
  World world;
  world.JoinAll({"node-1", "node-2", "node-3"});
  const JobId job = world.Submit(world.Spec({"node-1", "node-2", "node-3"}));
  world.PrepareFailed("node-2", "/data is missing");
  EXPECT_EQ(world.Job(job).state(), v1::Job::PREPARING) << "the others may have reasons too";
  world.Prepared("node-1");
  world.PrepareFailed("node-3", "slot 0 is in use");
  v1::Job view = world.Job(job);
  EXPECT_EQ(view.state(), v1::Job::STOPPING);
  EXPECT_EQ(world.Agent("node-1").Desired(job), Assignment::STOPPED);
  world.Stopped("node-1");
  view = world.Job(job);
  EXPECT_EQ(view.state(), v1::Job::FAILED);
  EXPECT_EQ(view.cause(), v1::Job::PREPARE_FAILED);
  EXPECT_EQ(view.exit_code(), 120);
  EXPECT_THAT(view.reason(), AllOf(HasSubstr("2 of 3"), HasSubstr("node-2: /data is missing"),
                                   HasSubstr("node-3: slot 0 is in use")));
  EXPECT_EQ(view.nodes(1).problems(0).message(), "/data is missing");
  EXPECT_EQ(view.nodes(1).phase(), v1::JobNode::PREPARE_FAILED);
}

TEST(GangStart, WaitsForOtherAnswersForTwoSecondsAtMost) {
  World world;
  world.JoinAll({"node-1", "node-2"});
  const JobId job = world.Submit(world.Spec({"node-1", "node-2"}));
  world.PrepareFailed("node-1", "no such file");
  world.Run(milliseconds(1900));
  EXPECT_EQ(world.Job(job).state(), v1::Job::PREPARING);
  world.Run(milliseconds(200));
  EXPECT_EQ(world.Job(job).state(), v1::Job::STOPPING);
  // Its reasons are shown even if they come this late.
  world.PrepareFailed("node-2", "no such file either");
  const v1::Job view = world.Job(job);
  EXPECT_EQ(view.state(), v1::Job::FAILED);
  EXPECT_EQ(view.nodes(1).problems(0).message(), "no such file either");
}

TEST(GangStart, NamesNodesThatDoNotAnswerInTime) {
  World world;
  world.JoinAll({"node-1", "node-2"});
  v1::JobSpec spec = world.Spec({"node-1", "node-2"});
  spec.mutable_start_timeout()->set_seconds(5);
  const JobId job = world.Submit(spec);
  world.Prepared("node-1");
  world.Run(seconds(6));
  world.StoppedAll();
  const v1::Job view = world.Job(job);
  EXPECT_EQ(view.state(), v1::Job::FAILED);
  EXPECT_EQ(view.exit_code(), 120);
  EXPECT_THAT(view.reason(), AllOf(HasSubstr("node-2"), Not(HasSubstr("node-1"))));
}

TEST(GangStart, ANodeLostWhileItPreparesEndsTheJob) {
  World world;
  world.JoinAll({"node-1", "node-2"});
  const JobId job = world.Submit(world.Spec({"node-1", "node-2"}));
  world.Prepared("node-1");
  world.Disconnect("node-2");
  world.Run(seconds(12));
  EXPECT_EQ(world.Agent("node-1").Desired(job), Assignment::STOPPED);
  world.Stopped("node-1");
  const v1::Job view = world.Job(job);
  EXPECT_EQ(view.state(), v1::Job::FAILED);
  EXPECT_EQ(view.cause(), v1::Job::NODE_LOST);
  EXPECT_EQ(view.exit_code(), 121);
  EXPECT_THAT(view.reason(), HasSubstr("node-2"));
}

TEST(Rendezvous, PrefersTheJobsAddressThenTheHostfiles) {
  World world;
  world.Join("node-1");
  v1::JobSpec spec = world.Spec({"node-1"});
  spec.mutable_hosts(0)->set_address("192.0.2.9");
  JobId job = world.Submit(spec);
  world.Prepared("node-1");
  EXPECT_EQ(world.Job(job).rendezvous().address(), "192.0.2.9");
  spec.set_master_addr("192.0.2.10");
  job = world.Submit(spec);
  world.Prepared("node-1");
  EXPECT_EQ(world.Job(job).rendezvous().address(), "192.0.2.10");
}

}  // namespace
}  // namespace muster::testing
