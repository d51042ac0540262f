// Stories of contact: leases, reconnects, reboots, lost journals, and events that come twice or not
// at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>

#include "coordinator/core/node_table.h"
#include "tests/unit/coordinator_core/world.h"

namespace muster::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using v1::Assignment;

v1::Node NodeOf(World& world, const std::string& name) {
  const auto nodes = world.Await<v1::ListNodesResponse>([&](auto done) {
    world.core().ListNodes({}, {"root", true}, std::move(done));
  });
  for (const v1::Node& node : nodes->nodes()) {
    if (node.node_id() == name) return node;
  }
  return {};
}

TEST(Contact, WelcomesAnAgent) {
  CoordinatorOptions options;
  options.heartbeat_interval = seconds(1);
  options.lease_ttl = seconds(7);
  World world(options);
  FakeAgent& agent = world.Join("node-1");
  ASSERT_TRUE(agent.welcome.has_value());
  EXPECT_EQ(agent.welcome->coordinator_epoch(), 1u);
  EXPECT_EQ(agent.welcome->heartbeat_interval().seconds(), 1);
  EXPECT_EQ(agent.welcome->lease_ttl().seconds(), 7);
  EXPECT_TRUE(agent.inbox[1].has_snapshot());
  EXPECT_EQ(world.core().NodeOfSession(agent.welcome->session_id()), NodeId("node-1"));
  const v1::Node node = NodeOf(world, "node-1");
  EXPECT_EQ(node.state(), v1::Node::ALIVE);
  EXPECT_EQ(node.boot_id(), "node-1-boot-1");
}

TEST(Contact, AnswersHeartbeatsAtOnce) {
  World world;
  FakeAgent& agent = world.Join("node-1");
  world.Run(seconds(5));
  const auto acks = std::count_if(agent.inbox.begin(), agent.inbox.end(),
                                  [](const auto& m) { return m.has_heartbeat_ack(); });
  EXPECT_GE(acks, 3);
}

TEST(Contact, AnyMessageKeepsANodeAlive) {
  World world;
  FakeAgent& agent = world.Join("node-1");
  const JobId job = world.Submit(world.Spec({"node-1"}));
  agent.beating = false;
  for (int i = 0; i < 10; ++i) {
    world.Run(seconds(4));
    world.Tell("node-1", world.EventOf("node-1"));
  }
  EXPECT_EQ(NodeOf(world, "node-1").state(), v1::Node::ALIVE);
  EXPECT_EQ(world.Job(job).state(), v1::Job::PREPARING);
}

TEST(Contact, ASilentNodeIsSuspectThenLostAndItsRanksWithIt) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1", "node-2"}));
  world.Agent("node-2").beating = false;
  world.Run(seconds(7));
  v1::Job view = world.Job(job);
  EXPECT_EQ(view.state(), v1::Job::RUNNING);
  EXPECT_FALSE(view.nodes(0).suspect());
  EXPECT_TRUE(view.nodes(1).suspect());
  EXPECT_EQ(NodeOf(world, "node-2").state(), v1::Node::SUSPECT);
  world.Run(seconds(5));
  EXPECT_EQ(NodeOf(world, "node-2").state(), v1::Node::LOST);
  EXPECT_EQ(world.Agent("node-1").Desired(job), Assignment::STOPPED);
  world.Stopped("node-1");
  view = world.Job(job);
  EXPECT_EQ(view.state(), v1::Job::FAILED);
  EXPECT_EQ(view.cause(), v1::Job::NODE_LOST);
  EXPECT_EQ(view.exit_code(), 121);
  EXPECT_THAT(view.reason(),
              AllOf(HasSubstr("node-2 is lost"), HasSubstr("no word from it for 10s")));
  EXPECT_EQ(view.nodes(1).phase(), v1::JobNode::LOST);
  EXPECT_EQ(view.ranks(2).state(), v1::JobRank::LOST);
  EXPECT_FALSE(view.ranks(2).has_status());
}

TEST(Contact, ANodeIsSuspectAsSoonAsItsStreamIsGoneAndFineWhenItComesBack) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1"}));
  world.Disconnect("node-1");
  EXPECT_TRUE(world.Job(job).nodes(0).suspect());
  world.Run(seconds(5));
  world.Connect("node-1");
  EXPECT_FALSE(world.Job(job).nodes(0).suspect());
  EXPECT_EQ(world.Job(job).state(), v1::Job::RUNNING);
  EXPECT_EQ(world.Agent("node-1").Desired(job), Assignment::RUNNING);
}

// A network may deliver what a connection was sent after the agent has given it up for another one.
TEST(Contact, AGreetingThatComesLateOrTwiceIsRefused) {
  World world;
  world.Join("node-1");
  const v1::Hello late = world.Agent("node-1").greeting;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1"}));
  const auto deliver_again = [&] {
    FakeAgent sink("node-1");
    v1::AgentMessage message;
    *message.mutable_hello() = late;
    const SessionHandle session = world.core().OnAgentConnected(&sink);
    world.core().OnAgentMessage(session, std::move(message));
    world.Settle();
    const bool refused = sink.closed.has_value() && absl::IsAborted(*sink.closed);
    world.core().OnAgentDisconnected(session);
    world.Settle();
    return refused;
  };
  EXPECT_TRUE(deliver_again());
  EXPECT_FALSE(world.Agent("node-1").closed.has_value()) << "the session goes on";
  EXPECT_EQ(world.Job(job).state(), v1::Job::RUNNING);
  EXPECT_FALSE(world.Job(job).nodes(0).suspect());
  world.Disconnect("node-1");
  EXPECT_TRUE(deliver_again());
  EXPECT_EQ(world.Job(job).state(), v1::Job::RUNNING);
  world.Connect("node-1");
  EXPECT_EQ(world.Agent("node-1").Desired(job), Assignment::RUNNING);
  // Whatever happened to its clock: a node that was lost comes back.
  world.Disconnect("node-1");
  world.Run(seconds(11));
  EXPECT_FALSE(deliver_again());
}

// The job is over and what holds its slots on the node may not be.
TEST(Contact, SlotsOfANodeThatWasLostAreFreeOnceItSaysThatNothingIsLeft) {
  World world;
  const JobId first = world.SubmitAndStart(world.Spec({"node-1"}));
  world.Exited(0, 0);
  world.Exited(1, 0);
  world.Disconnect("node-1");
  world.Run(seconds(12));
  ASSERT_EQ(world.Job(first).state(), v1::Job::SUCCEEDED);
  world.Connect("node-1");
  v1::JobSpec spec = world.Spec({"node-1"}, 1);
  spec.mutable_start_timeout()->set_seconds(600);
  const JobId second = world.Submit(spec);
  world.Run(seconds(1));
  EXPECT_EQ(world.Job(second).state(), v1::Job::PENDING);
  EXPECT_THAT(world.Job(second).reason(),
              AllOf(HasSubstr("node-1 has not confirmed"), HasSubstr("job " + first.value()),
                    HasSubstr("slot 0")));
  EXPECT_EQ(world.Agent("node-1").Find(second), nullptr);
  const JobId third = world.Submit(world.Spec({"node-1"}));
  world.Run(std::chrono::minutes(6));
  EXPECT_EQ(world.Job(third).state(), v1::Job::FAILED);
  EXPECT_THAT(world.Job(third).reason(), HasSubstr("could not start within 5m: node-1 has not"));
  v1::Event stopped = world.EventOf("node-1", 1);
  stopped.mutable_key()->set_job_id(first.value());
  stopped.mutable_attempt_stopped();
  world.Tell("node-1", stopped);
  EXPECT_EQ(world.Agent("node-1").Desired(second), Assignment::PREPARED);
}

TEST(Contact, ALostNodeHoldsNoSlotsAfterItWasBooted) {
  World world;
  const JobId first = world.SubmitAndStart(world.Spec({"node-1"}));
  world.Disconnect("node-1");
  world.Run(seconds(12));
  ASSERT_EQ(world.Job(first).state(), v1::Job::FAILED);
  FakeAgent& agent = world.Agent("node-1");
  agent.hello.set_boot_id("another");
  agent.hello.set_journal_id("another");
  agent.journal.clear();
  agent.acked_seq = 0;
  agent.assignments.clear();
  world.Connect("node-1");
  const JobId second = world.Submit(world.Spec({"node-1"}));
  EXPECT_EQ(world.Agent("node-1").Desired(second), Assignment::PREPARED);
}

TEST(Contact, WhatALostNodeTellsLaterDoesNotChangeTheStory) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1", "node-2"}));
  world.Disconnect("node-2");
  world.Exited(2, 0);
  world.Run(seconds(12));
  world.Stopped("node-1");
  EXPECT_EQ(world.Job(job).state(), v1::Job::FAILED);
  const v1::Job before = world.Job(job);
  world.Connect("node-2");
  EXPECT_EQ(world.Agent("node-2").Desired(job), Assignment::STOPPED) << "its ranks may still run";
  world.Exited(3, 0);
  world.Stopped("node-2");
  const v1::Job after = world.Job(job);
  EXPECT_EQ(after.state(), before.state());
  EXPECT_EQ(after.exit_code(), before.exit_code());
  EXPECT_EQ(after.ranks(2).state(), v1::JobRank::LOST);
  EXPECT_EQ(world.Agent("node-2").acked(), world.Agent("node-2").journal.size());
  EXPECT_EQ(world.Agent("node-2").Find(job), nullptr) << "released once it is clean";
}

TEST(Contact, ANodeLostAfterItsRanksEndedWith0IsNoFailure) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1", "node-2"}));
  world.Exited(2, 0);
  world.Exited(3, 0);
  world.Disconnect("node-2");
  world.Run(seconds(12));
  EXPECT_EQ(world.Job(job).state(), v1::Job::RUNNING);
  world.Exited(0, 0);
  world.Exited(1, 0);
  world.Stopped("node-1");
  const v1::Job view = world.Job(job);
  EXPECT_EQ(view.state(), v1::Job::SUCCEEDED);
  EXPECT_THAT(view.warnings(0), HasSubstr("node-2"));
}

TEST(Contact, ARebootLosesEverythingThatRanThere) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1", "node-2"}));
  world.Disconnect("node-2");
  FakeAgent& agent = world.Agent("node-2");
  agent.hello.set_boot_id("node-2-boot-2");
  agent.hello.set_journal_id("node-2-journal-2");
  agent.journal.clear();
  agent.acked_seq = 0;
  agent.assignments.clear();
  world.Connect("node-2");
  EXPECT_TRUE(absl::IsUnavailable(*agent.closed)) << "the boot before was heard a moment ago";
  world.Disconnect("node-2");
  EXPECT_EQ(world.Job(job).state(), v1::Job::RUNNING);
  world.Run(seconds(11));
  EXPECT_EQ(world.Job(job).state(), v1::Job::STOPPING);
  world.Connect("node-2");
  EXPECT_EQ(agent.welcome->acked_event_seq(), 0u);
  world.Stopped("node-1");
  const v1::Job view = world.Job(job);
  EXPECT_EQ(view.cause(), v1::Job::NODE_LOST);
  EXPECT_THAT(view.reason(), HasSubstr("node-2 is lost: it was rebooted"));
  EXPECT_EQ(agent.Find(job), nullptr) << "nothing is left there to stop";
}

TEST(Contact, AnAgentThatLostItsJournalIsToldToStopWhatItForgot) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1", "node-2"}));
  FakeAgent& agent = world.Agent("node-2");
  world.Disconnect("node-2");
  agent.hello.set_journal_id("node-2-journal-2");
  agent.journal.clear();
  agent.acked_seq = 0;
  agent.assignments.clear();
  world.Connect("node-2");
  EXPECT_EQ(agent.Desired(job), Assignment::STOPPED);
  world.Stopped("node-1");
  EXPECT_EQ(world.Job(job).exit_code(), 121);
  EXPECT_THAT(world.Job(job).reason(), HasSubstr("lost its journal"));
  world.Stopped("node-2");
  world.Tell("node-2", world.EventOf("node-2"));
  EXPECT_EQ(agent.acked(), 2u) << "sequence numbers began again";
}

TEST(Contact, AnAgentThatForgotARunningAttemptIsNotBelievedToRunIt) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1"}));
  world.Disconnect("node-1");
  world.Agent("node-1").assignments.clear();
  world.Connect("node-1");
  const v1::Job view = world.Job(job);
  EXPECT_EQ(view.state(), v1::Job::FAILED);
  EXPECT_EQ(view.exit_code(), 121);
  for (const auto& message : world.Agent("node-1").inbox) {
    for (const Assignment& assignment : message.snapshot().assignments()) {
      EXPECT_NE(assignment.desired(), Assignment::RUNNING) << "ranks must not start twice";
    }
  }
}

TEST(Contact, AnAgentThatNeverGotItsAssignmentGetsItAgain) {
  World world;
  world.JoinAll({"node-1", "node-2"});
  world.Disconnect("node-2");
  world.Connect("node-2");
  const JobId job = world.Submit(world.Spec({"node-1", "node-2"}));
  world.Disconnect("node-2");
  world.Agent("node-2").assignments.clear();
  world.Connect("node-2");
  EXPECT_EQ(world.Agent("node-2").Desired(job), Assignment::PREPARED);
  EXPECT_EQ(world.Agent("node-2").Find(job)->launch().argv_size(), 1);
}

TEST(Contact, ANodeThatWasAwayWhenAllPreparedIsToldToRunWhenItIsBack) {
  World world;
  world.JoinAll({"node-1", "node-2"});
  const JobId job = world.Submit(world.Spec({"node-1", "node-2"}));
  world.Prepared("node-2");
  world.Disconnect("node-2");
  world.Prepared("node-1");
  EXPECT_EQ(world.Agent("node-1").Desired(job), Assignment::RUNNING);
  world.Connect("node-2");
  const Assignment& assignment = *world.Agent("node-2").Find(job);
  EXPECT_EQ(assignment.desired(), Assignment::RUNNING);
  EXPECT_EQ(assignment.rendezvous().port(), 29500u);
}

TEST(Contact, CancelWhileANodeIsAwayReachesItWhenItIsBack) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1", "node-2"}));
  world.Disconnect("node-2");
  world.Cancel(job, SIGINT);
  world.Stopped("node-1");
  EXPECT_EQ(world.Job(job).state(), v1::Job::STOPPING);
  world.Connect("node-2");
  EXPECT_EQ(world.Agent("node-2").Desired(job), Assignment::STOPPED);
  world.Stopped("node-2");
  EXPECT_EQ(world.Job(job).exit_code(), 130);
}

TEST(Contact, TheNewestSessionWins) {
  World world;
  FakeAgent& agent = world.Join("node-1");
  FakeAgent twin("node-1");
  twin.hello = agent.hello;
  twin.session = world.core().OnAgentConnected(&twin);
  v1::AgentMessage message;
  *message.mutable_hello() = twin.hello;
  world.core().OnAgentMessage(twin.session, message);
  world.Settle();
  ASSERT_TRUE(agent.closed.has_value());
  EXPECT_EQ(agent.closed->code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(twin.welcome.has_value());
  world.core().OnAgentDisconnected(agent.session);
  agent.session = SessionHandle::kNone;
  world.Settle();
  EXPECT_EQ(NodeOf(world, "node-1").state(), v1::Node::ALIVE) << "the newer one is still there";
  world.core().OnAgentDisconnected(twin.session);
  world.Settle();
}

TEST(Contact, RefusesAgentsThatDoNotFit) {
  CoordinatorOptions options;
  options.cluster_id = "prod";
  World world(options);
  FakeAgent& agent = world.Join("node-1");
  ASSERT_TRUE(agent.closed.has_value());
  EXPECT_EQ(agent.closed->code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(agent.welcome.has_value());
}

TEST(Contact, AStreamThatDoesNotBeginWithHelloIsClosed) {
  World world;
  FakeAgent agent("node-1");
  const SessionHandle session = world.core().OnAgentConnected(&agent);
  v1::AgentMessage message;
  message.mutable_events()->add_events()->set_seq(1);
  world.core().OnAgentMessage(session, message);
  world.Settle();
  ASSERT_TRUE(agent.closed.has_value());
  EXPECT_EQ(agent.closed->code(), absl::StatusCode::kInvalidArgument);
}

TEST(Contact, ASecondHelloIsRefused) {
  World world;
  FakeAgent& agent = world.Join("node-1");
  v1::AgentMessage message;
  *message.mutable_hello() = agent.hello;
  world.core().OnAgentMessage(agent.session, message);
  world.Settle();
  EXPECT_TRUE(agent.closed.has_value());
}

TEST(Events, AreAcknowledgedOnlyOnceTheyAreStored) {
  World world;
  world.Join("node-1");
  world.Submit(world.Spec({"node-1"}));
  world.disk().latency = milliseconds(100);
  world.Prepared("node-1");
  world.Run(milliseconds(50));
  EXPECT_EQ(world.Agent("node-1").acked(), 0u);
  world.Run(milliseconds(60));
  EXPECT_EQ(world.Agent("node-1").acked(), 1u);
}

TEST(Events, RepeatedOnesAreAcknowledgedAgainAndCountOnce) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1"}));
  const uint64_t revision = world.Job(job).revision();
  world.Agent("node-1").inbox.clear();
  world.Resend("node-1", 0);
  EXPECT_EQ(world.Job(job).revision(), revision);
  ASSERT_EQ(world.Agent("node-1").inbox.size(), 1u);
  EXPECT_EQ(world.Agent("node-1").inbox[0].event_ack().acked_seq(), 3u);
}

TEST(Events, AGapClosesTheStream) {
  World world;
  world.Join("node-1");
  v1::EventBatch batch;
  batch.add_events()->set_seq(2);
  world.SendEvents("node-1", batch);
  ASSERT_TRUE(world.Agent("node-1").closed.has_value());
  EXPECT_EQ(world.Agent("node-1").closed->code(), absl::StatusCode::kFailedPrecondition);
}

TEST(Events, AJournalThatBeginsBehindWhatIsStoredIsRefused) {
  World world;
  world.SubmitAndStart(world.Spec({"node-1"}));
  world.Disconnect("node-1");
  FakeAgent& agent = world.Agent("node-1");
  agent.journal.resize(10);
  agent.acked_seq = 9;
  world.Connect("node-1");
  ASSERT_TRUE(agent.closed.has_value());
  EXPECT_EQ(agent.closed->code(), absl::StatusCode::kFailedPrecondition);
}

TEST(Events, AnUnknownJournalMayBeginAnywhere) {
  // The coordinator has lost its store, the agent has not lost its journal.
  World world;
  FakeAgent& agent = world.Join("node-1");
  world.Disconnect("node-1");
  agent.hello.set_journal_id("older");
  agent.journal.resize(20);
  for (size_t i = 0; i < agent.journal.size(); ++i) agent.journal[i].set_seq(i + 1);
  agent.acked_seq = 15;
  world.Connect("node-1");
  EXPECT_FALSE(agent.closed.has_value());
  EXPECT_EQ(agent.acked(), 20u);
}

TEST(Events, OfUnknownJobsAreAcknowledged) {
  World world;
  world.Join("node-1");
  v1::Event event;
  event.mutable_key()->set_job_id("nosuch");
  event.mutable_key()->set_attempt(1);
  event.mutable_prepared();
  world.Tell("node-1", event);
  EXPECT_EQ(world.Agent("node-1").acked(), 1u);
}

TEST(Events, WhatCameBeforeTheEndOfTheStreamStillCounts) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1"}, 1));
  FakeAgent& agent = world.Agent("node-1");
  v1::Event event = world.EventOf("node-1");
  event.set_seq(agent.journal.size() + 1);
  event.mutable_rank_exited()->mutable_status()->set_exit_code(7);
  v1::AgentMessage message;
  *message.mutable_events()->add_events() = event;
  world.core().OnAgentMessage(agent.session, message);
  world.core().OnAgentDisconnected(agent.session);
  agent.session = SessionHandle::kNone;
  world.Settle();
  EXPECT_EQ(world.Job(job).state(), v1::Job::STOPPING);
}

TEST(Events, OfAnotherNodesRankAreIgnored) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1", "node-2"}));
  v1::Event event = world.EventOf("node-1");
  event.mutable_rank_exited()->set_rank(3);
  event.mutable_rank_exited()->mutable_status()->set_exit_code(1);
  world.Tell("node-1", event);
  EXPECT_EQ(world.Job(job).state(), v1::Job::RUNNING);
}

TEST(Lease, GrowsWithTheCluster) {
  const LeaseTerms base{seconds(2), seconds(10)};
  EXPECT_EQ(ScaleLease(base, 1, 500).lease_ttl, base.lease_ttl);
  EXPECT_EQ(ScaleLease(base, 1000, 500).heartbeat_interval, base.heartbeat_interval);
  EXPECT_EQ(ScaleLease(base, 4000, 500).heartbeat_interval, seconds(8));
  EXPECT_EQ(ScaleLease(base, 4000, 500).lease_ttl, seconds(40));
}

TEST(Lease, AVeryShortOneDoesNotMakeTheCoordinatorSpin) {
  EXPECT_EQ(NodeTable({.lease_ttl = seconds(5)}, 100).tick_interval(), milliseconds(500));
  EXPECT_EQ(NodeTable({.lease_ttl = milliseconds(1)}, 100).tick_interval(), milliseconds(10));
}

TEST(Lease, AStallOfTheCoordinatorItselfLosesNobody) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1"}));
  // The process stood still; its messages are still in the sockets when its timers fire.
  world.clock().Advance(seconds(60));
  world.Run(seconds(1));
  EXPECT_EQ(world.Job(job).state(), v1::Job::RUNNING);
  EXPECT_EQ(NodeOf(world, "node-1").state(), v1::Node::ALIVE);
}

}  // namespace
}  // namespace muster::testing
