// Stories of where ranks meet: every node tries the place before anybody starts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/coordinator_core/world.h"

namespace muster::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using v1::Assignment;

CoordinatorOptions Probing() {
  CoordinatorOptions options;
  options.probe_rendezvous = true;
  return options;
}

class RendezvousProbe : public ::testing::Test {
 protected:
  // Three nodes, of which the first has two addresses, and a job on them.
  JobId Begin(v1::JobSpec spec = World::Spec({"node-1", "node-2", "node-3"})) {
    world_.JoinAll({"node-1", "node-2", "node-3"});
    world_.Agent("node-1").hello.mutable_facts()->add_addresses("10.1.0.1");
    world_.Connect("node-1");
    return world_.Submit(std::move(spec));
  }
  std::vector<std::string> Addresses(const JobId& job, const std::string& node) {
    const auto& addresses = world_.Agent(node).Find(job)->probe().addresses();
    return {addresses.begin(), addresses.end()};
  }
  bool Started(const JobId& job) {
    for (const char* node : {"node-1", "node-2", "node-3"}) {
      if (world_.Agent(node).Desired(job) == Assignment::RUNNING) return true;
    }
    return false;
  }

  World world_{Probing()};
};

TEST_F(RendezvousProbe, BeginsWhenRankZerosNodeIsPreparedAndTheOthersMayStillPrepare) {
  const JobId job = Begin();
  EXPECT_THAT(world_.Agent("node-1").welcome->capabilities(), ElementsAre("rendezvous-probe"));
  world_.Prepared("node-2");
  EXPECT_FALSE(world_.Agent("node-2").Find(job)->has_probe());
  world_.Prepared("node-1");
  for (const char* node : {"node-2", "node-3"}) {
    const Assignment& assignment = *world_.Agent(node).Find(job);
    EXPECT_EQ(assignment.desired(), Assignment::PREPARED);
    EXPECT_EQ(assignment.generation(), 2u);
    EXPECT_THAT(assignment.probe().addresses(), ElementsAre("10.0.0.1", "10.1.0.1"));
    EXPECT_EQ(assignment.probe().port(), 29500u);
  }
  EXPECT_EQ(world_.Agent("node-1").Find(job)->generation(), 1u) << "nothing is new for it";
  world_.Probed("node-2");
  world_.Probed("node-3");
  EXPECT_FALSE(Started(job)) << "one is not prepared";
  world_.Prepared("node-3");
  for (const char* node : {"node-1", "node-2", "node-3"}) {
    const Assignment& assignment = *world_.Agent(node).Find(job);
    EXPECT_EQ(assignment.desired(), Assignment::RUNNING);
    EXPECT_EQ(assignment.generation(), 3u);
    EXPECT_FALSE(assignment.has_probe());
    EXPECT_EQ(assignment.rendezvous().address(), "10.0.0.1");
  }
  EXPECT_THAT(world_.Job(job).warnings(), IsEmpty());
}

TEST_F(RendezvousProbe, NobodyStartsBeforeEveryNodeHasAnswered) {
  const JobId job = Begin();
  world_.PreparedAll();
  EXPECT_FALSE(Started(job));
  world_.Probed("node-3");
  EXPECT_FALSE(Started(job));
  world_.Probed("node-2");
  EXPECT_TRUE(Started(job));
}

TEST_F(RendezvousProbe, TakesTheFirstAddressThatAllHaveReachedAndSaysWhy) {
  const JobId job = Begin();
  world_.PreparedAll();
  world_.Probed("node-2");
  world_.Probed("node-3", {{"10.0.0.1", "no route to host"}});
  EXPECT_EQ(world_.Job(job).rendezvous().address(), "10.1.0.1");
  EXPECT_THAT(world_.Job(job).warnings(),
              ElementsAre("MASTER_ADDR is 10.1.0.1 because not every node reaches 10.0.0.1:29500: "
                          "node-3: no route to host"));
}

TEST_F(RendezvousProbe, WhereNoAddressIsReachedByAllEveryReasonIsTold) {
  const JobId job = Begin();
  world_.PreparedAll();
  world_.Probed("node-2", {{"10.0.0.1", "no answer within 2 s"}});
  world_.Probed("node-3", {{"10.1.0.1", "connection refused"}});
  EXPECT_EQ(world_.Job(job).state(), v1::Job::STOPPING);
  EXPECT_FALSE(Started(job));
  EXPECT_EQ(world_.Agent("node-2").Find(job)->generation(), 4u);
  world_.StoppedAll();
  const v1::Job view = world_.Job(job);
  EXPECT_EQ(view.state(), v1::Job::FAILED);
  EXPECT_EQ(view.cause(), v1::Job::PREPARE_FAILED);
  EXPECT_EQ(view.exit_code(), 120);
  EXPECT_THAT(view.reason(), AllOf(HasSubstr("node-2: 10.0.0.1:29500 no answer within 2 s"),
                                   HasSubstr("node-3: 10.1.0.1:29500 connection refused"),
                                   HasSubstr("no address of node-1"), HasSubstr("firewall"),
                                   HasSubstr("master_addr"), HasSubstr("HCCL_SOCKET_IFNAME")));
}

TEST_F(RendezvousProbe, FailsAtOnceEvenWhileANodeStillPrepares) {
  const JobId job = Begin();
  world_.Prepared("node-1");
  world_.Probed("node-2");
  world_.Probed("node-3", {{"10.0.0.1", "x"}, {"10.1.0.1", "y"}});
  EXPECT_EQ(world_.Job(job).state(), v1::Job::STOPPING);
}

TEST_F(RendezvousProbe, OnlyTheAddressThatWasAskedForIsTried) {
  v1::JobSpec spec = World::Spec({"node-1", "node-2", "node-3"});
  spec.mutable_hosts(0)->set_address("192.0.2.9");
  JobId job = Begin(spec);
  world_.PreparedAll();
  EXPECT_THAT(Addresses(job, "node-2"), ElementsAre("192.0.2.9"));
  world_.Cancel(job);
  world_.StoppedAll();
  spec.set_master_addr("train.example");
  job = world_.Submit(spec);
  world_.PreparedAll();
  EXPECT_THAT(Addresses(job, "node-2"), ElementsAre("train.example"));
  world_.Probed("node-2", {{"train.example", "no answer within 2 s"}});
  world_.Probed("node-3");
  EXPECT_THAT(world_.Job(job).reason(), HasSubstr("train.example:29500 no answer within 2 s"));
}

TEST_F(RendezvousProbe, Ipv4IsPreferredAndWhatMeansAnotherMachineElsewhereIsNotTried) {
  world_.JoinAll({"node-1", "node-2", "node-3"});
  v1::NodeFacts& facts = *world_.Agent("node-1").hello.mutable_facts();
  facts.clear_addresses();
  // Both have a bridge of containers.
  for (const char* address : {"2001:db8::1", "10.0.0.1", "172.17.0.1", "127.0.0.1", "::1"}) {
    facts.add_addresses(address);
  }
  world_.Agent("node-3").hello.mutable_facts()->add_addresses("172.17.0.1");
  world_.Connect("node-1");
  world_.Connect("node-3");
  const JobId job = world_.Submit(World::Spec({"node-1", "node-2", "node-3"}));
  world_.Prepared("node-1");
  EXPECT_THAT(Addresses(job, "node-2"), ElementsAre("10.0.0.1", "2001:db8::1"));
  world_.PreparedAll();
  world_.Probed("node-2", {{"10.0.0.1", "no route to host"}});
  world_.Probed("node-3", {{"2001:db8::1", "network is unreachable"}});
  EXPECT_THAT(world_.Job(job).reason(), HasSubstr("[2001:db8::1]:29500 network is unreachable"));
}

TEST_F(RendezvousProbe, ANodeThatDoesNotAnswerIsNamed) {
  const JobId job = Begin();
  world_.PreparedAll();
  world_.Probed("node-3");
  world_.Run(milliseconds(14900));
  EXPECT_EQ(world_.Job(job).state(), v1::Job::PREPARING);
  world_.Run(milliseconds(200));
  EXPECT_EQ(world_.Job(job).state(), v1::Job::STOPPING);
  EXPECT_THAT(world_.Job(job).reason(),
              AllOf(HasSubstr("node-2 did not say within 15s"), Not(HasSubstr("node-3"))));
}

TEST_F(RendezvousProbe, TheTimeToAnswerBeginsOnlyWhenAllArePrepared) {
  const JobId job = Begin();
  world_.Prepared("node-1");
  world_.Prepared("node-2");
  world_.Run(seconds(30));
  EXPECT_EQ(world_.Job(job).state(), v1::Job::PREPARING);
  world_.Prepared("node-3");
  world_.Probed("node-2");
  world_.Probed("node-3");
  EXPECT_TRUE(Started(job));
}

TEST_F(RendezvousProbe, ALostNodeEndsTheAttempt) {
  const JobId job = Begin();
  world_.PreparedAll();
  world_.Probed("node-2");
  world_.Disconnect("node-3");
  world_.Run(seconds(12));
  EXPECT_FALSE(Started(job));
  world_.Stopped("node-1");
  world_.Stopped("node-2");
  EXPECT_EQ(world_.Job(job).state(), v1::Job::FAILED);
}

TEST_F(RendezvousProbe, AgentsOfAnOlderVersionAreNotAsked) {
  world_.JoinAll({"node-1", "node-2", "node-3"});
  world_.Agent("node-3").hello.clear_capabilities();
  world_.Connect("node-3");
  const JobId job = world_.Submit(World::Spec({"node-1", "node-2", "node-3"}));
  world_.PreparedAll();
  EXPECT_EQ(world_.Agent("node-3").Find(job)->generation(), 1u);
  EXPECT_FALSE(Started(job));
  world_.Probed("node-2");
  EXPECT_TRUE(Started(job));
  EXPECT_EQ(world_.Agent("node-3").Find(job)->generation(), 3u);
}

TEST_F(RendezvousProbe, WithoutAShimThatListensNobodyIsAsked) {
  world_.JoinAll({"node-1", "node-2", "node-3"});
  world_.Agent("node-1").hello.clear_capabilities();
  world_.Connect("node-1");
  const JobId job = world_.Submit(World::Spec({"node-1", "node-2", "node-3"}));
  world_.PreparedAll();
  EXPECT_TRUE(Started(job));
  EXPECT_EQ(world_.Agent("node-2").Find(job)->generation(), 2u);
}

TEST_F(RendezvousProbe, AJobOnOneNodeNeedsNone) {
  world_.Join("node-1");
  const JobId job = world_.Submit(World::Spec({"node-1"}));
  world_.Prepared("node-1");
  EXPECT_EQ(world_.Agent("node-1").Find(job)->generation(), 2u);
  EXPECT_EQ(world_.Agent("node-1").Desired(job), Assignment::RUNNING);
}

TEST_F(RendezvousProbe, GoesOnAfterARestartOfTheCoordinator) {
  const JobId job = Begin();
  world_.PreparedAll();
  world_.Probed("node-2");
  world_.Restart();
  for (const char* node : {"node-1", "node-2", "node-3"}) world_.Connect(node);
  EXPECT_FALSE(Started(job));
  world_.Probed("node-3");
  EXPECT_TRUE(Started(job));
  EXPECT_EQ(world_.Agent("node-3").Find(job)->generation(), 3u);
}

TEST_F(RendezvousProbe, ACoordinatorThatStartedAnewAsksOnlyOnceItKnowsWhoCan) {
  const JobId job = Begin();
  world_.Prepared("node-2");
  world_.Prepared("node-3");
  world_.Disconnect("node-1");
  world_.Prepared("node-1");  // In its journal.
  world_.Restart();
  world_.Connect("node-1");
  EXPECT_FALSE(Started(job));
  world_.Connect("node-2");
  world_.Agent("node-3").hello.clear_capabilities();
  world_.Connect("node-3");
  EXPECT_TRUE(world_.Agent("node-2").Find(job)->has_probe());
  world_.Probed("node-2");
  EXPECT_TRUE(Started(job));
}

TEST_F(RendezvousProbe, AnAnswerThatComesTwiceOrLateChangesNothing) {
  const JobId job = Begin();
  world_.PreparedAll();
  world_.Probed("node-2");
  world_.Probed("node-2", {{"10.0.0.1", "x"}, {"10.1.0.1", "y"}});
  world_.Probed("node-3");
  EXPECT_TRUE(Started(job));
  EXPECT_EQ(world_.Job(job).rendezvous().address(), "10.0.0.1");
}

TEST_F(RendezvousProbe, ACancelWhileItRunsEndsTheJob) {
  const JobId job = Begin();
  world_.PreparedAll();
  world_.Cancel(job);
  world_.Probed("node-2");
  world_.Probed("node-3");
  EXPECT_FALSE(Started(job));
  world_.StoppedAll();
  EXPECT_EQ(world_.Job(job).state(), v1::Job::CANCELLED);
}

TEST(Rendezvous, IsNotProbedUnlessTheCoordinatorWantsIt) {
  World world;
  const JobId job = world.SubmitAndStart(World::Spec({"node-1", "node-2"}));
  EXPECT_THAT(world.Agent("node-1").welcome->capabilities(), IsEmpty());
  EXPECT_EQ(world.Agent("node-2").Find(job)->generation(), 2u);
}

}  // namespace
}  // namespace muster::testing
