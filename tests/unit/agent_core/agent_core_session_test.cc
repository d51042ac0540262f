// What AgentCore says and hears on a session: greeting, epochs, events, leases, the end of an
// ephemeral agent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/agent_core/core_fixture.h"

namespace muster::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

v1::Assignment WithStopAfter(v1::Assignment assignment, int seconds_alone) {
  assignment.mutable_launch()->mutable_on_coordinator_loss()->mutable_stop_after()->set_seconds(
      seconds_alone);
  return assignment;
}

TEST_F(AgentCoreTest, HelloReportsEverythingThatTheNodeHolds) {
  options_.cluster_id = "c";
  options_.capabilities = {"cgroup-kill"};
  StartAgent();
  Connect();
  RunBoth(kJob1);
  Assign(Assignment(kJob2, 9, v1::Assignment::STOPPED));
  Ack(1);
  core_->OnDisconnected(absl::UnavailableError("gone"));
  Dial();
  ASSERT_EQ(sink_->sent.size(), 1u);
  const v1::Hello& hello = sink_->sent[0].hello();
  EXPECT_EQ(hello.cluster_id(), "c");
  EXPECT_EQ(hello.node_id(), "node-1");
  EXPECT_EQ(hello.agent_instance_id(), "instance-1");
  EXPECT_EQ(hello.boot_id(), "boot-1");
  EXPECT_EQ(hello.journal_id(), core_->state().journal_id);
  EXPECT_EQ(hello.oldest_event_seq(), 2u);
  EXPECT_EQ(hello.version().major(), 1u);
  EXPECT_THAT(hello.capabilities(), ElementsAre("cgroup-kill"));
  EXPECT_EQ(hello.facts().hostname(), "node-1");
  ASSERT_EQ(hello.attempts_size(), 2);
  EXPECT_EQ(hello.attempts(0).key().job_id(), "j1");
  EXPECT_EQ(hello.attempts(0).generation(), 2u);
  EXPECT_EQ(hello.attempts(0).running_ranks(), 2u);
  EXPECT_FALSE(hello.attempts(0).stopped());
  EXPECT_TRUE(hello.attempts(1).stopped());
}

TEST_F(AgentCoreTest, ResendsEventsBehindTheAcknowledgedOne) {
  StartAgent();
  Connect();
  RunBoth(kJob1);
  EXPECT_THAT(TakeEventWords(), ElementsAre("1 prepared", "2 started 0", "3 started 1"));
  core_->OnDisconnected(absl::UnavailableError("gone"));
  TellExited(kJob1, 5, 0, 1);
  Connect({Run(kJob1)}, 1);
  EXPECT_THAT(TakeEventWords(), ElementsAre("2 started 0", "3 started 1", "4 exited 0 1"));
  EXPECT_EQ(core_->state().acked_seq, 1u);
  Ack(4);
  EXPECT_TRUE(core_->state().events.empty());
  Ack(2);
  EXPECT_FALSE(sink_->closed.has_value()) << "a repeated acknowledgement";
}

TEST_F(AgentCoreTest, BoundsBatchesAndWhatIsUnderWay) {
  StartAgent();
  Connect();
  Assign(Prepare(kJob1));
  TellBegun(kJob1, 1);
  TellPrepared(kJob1, 2);
  core_->OnDisconnected(absl::UnavailableError("gone"));
  for (uint64_t index = 3; index < 3003; ++index)
    launcher_->Tell(kJob1, [&] {
      internal::ShimRecord record = Record(index);
      record.mutable_rank_started()->set_rank(0);
      return record;
    }());
  Connect({Assignment(kJob1, 1, v1::Assignment::PREPARED)});
  uint64_t next = 1;
  for (const v1::AgentMessage& message : sink_->sent) {
    EXPECT_LE(message.events().events_size(), 256);
    for (const v1::Event& event : message.events().events()) EXPECT_EQ(event.seq(), next++);
  }
  EXPECT_EQ(next, 2049u);
  TakeEvents();
  Ack(1000);
  EXPECT_EQ(TakeEvents().size(), 953u);
}

TEST_F(AgentCoreTest, RefusesALowerEpochForEver) {
  StartAgent();
  Connect({}, 0, 7);
  StartAgent();
  observer_.Take();
  Dial();
  Welcome(0, 6);
  ASSERT_TRUE(sink_->closed.has_value());
  EXPECT_EQ(sink_->closed->code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(observer_.Take(), ElementsAre("session lost"));
  Snapshot({Prepare(kJob1)});
  EXPECT_THAT(launcher_->Take(), IsEmpty()) << "nothing from a refused coordinator is heard";
  Connect({}, 0, 8);
  EXPECT_FALSE(sink_->closed.has_value());
  EXPECT_EQ(core_->state().epoch, 8u);
}

TEST_F(AgentCoreTest, RefusesACoordinatorThatHasOtherEvents) {
  StartAgent();
  Connect();
  RunBoth(kJob1);
  Ack(2);
  for (const uint64_t acked : {1, 4}) {
    Dial();
    Welcome(acked);
    ASSERT_TRUE(sink_->closed.has_value()) << acked;
    EXPECT_EQ(sink_->closed->code(), absl::StatusCode::kFailedPrecondition);
  }
  Dial();
  Welcome(3);
  EXPECT_FALSE(sink_->closed.has_value());
  Ack(4);
  ASSERT_TRUE(sink_->closed.has_value()) << "an event that was never sent";
}

TEST_F(AgentCoreTest, RenewsLeasesOnlyForTheTimeSinceAnAnsweredHeartbeatWasSent) {
  StartAgent();
  Connect();
  Assign(WithStopAfter(Prepare(kJob1), 6));
  EXPECT_EQ(launcher_->bootstraps.at(kJob1).lease_ms(), 6000u);
  TellBegun(kJob1, 1);
  queue_.RunFor(milliseconds(2500));
  ASSERT_FALSE(launcher_->renewals.empty());
  EXPECT_EQ(launcher_->renewals.back().second, milliseconds(4000)) << "at 2 s, Hello was at 0 s";
  // The third heartbeat, sent at 2 s, is answered.
  launcher_->renewals.clear();
  v1::CoordinatorMessage message;
  message.mutable_heartbeat_ack()->set_sequence(3);
  Say(message);
  EXPECT_EQ(launcher_->renewals.back().second, milliseconds(5500));
  // Assignments alone prove nothing: they may have been under way for long.
  Assign(WithStopAfter(Prepare(kJob1, 2), 6));
  launcher_->renewals.clear();
  queue_.RunFor(milliseconds(5000));
  EXPECT_EQ(launcher_->renewals.back().second, milliseconds(1000)) << "at 7 s";
  launcher_->renewals.clear();
  queue_.RunFor(seconds(5));
  EXPECT_THAT(launcher_->renewals, IsEmpty());
}

TEST_F(AgentCoreTest, StopsAShimOnceThatLetsItsLeaseRunOut) {
  StartAgent();
  Connect();
  Assign(WithStopAfter(Prepare(kJob1), 6));
  Assign(Prepare(kJob2));
  TellBegun(kJob1, 1);
  TellBegun(kJob2, 1);
  core_->OnDisconnected(absl::UnavailableError("gone"));
  (void)launcher_->Take();
  // The lease is the shim's to keep: it has 15 s more for that.
  queue_.RunFor(seconds(20));
  EXPECT_THAT(launcher_->Take(), IsEmpty());
  queue_.RunFor(seconds(60));
  EXPECT_THAT(launcher_->Take(), ElementsAre("stop j1/1 grace 0"));
}

TEST_F(AgentCoreTest, RenewsNothingAfterARestartBeforeTheCoordinatorAnswers) {
  StartAgent();
  Connect();
  Assign(WithStopAfter(Prepare(kJob1), 6));
  TellBegun(kJob1, 1);
  StartAgent();
  queue_.RunFor(seconds(3));
  EXPECT_THAT(launcher_->renewals, IsEmpty());
  Dial();
  Welcome();
  EXPECT_EQ(launcher_->renewals.back().second, milliseconds(6000));
}

TEST_F(AgentCoreTest, SendsHeartbeatsWithTheStateOfTheNode) {
  options_.pending_log_bytes = [] { return uint64_t{42}; };
  StartAgent();
  Connect();
  RunBoth(kJob1);
  sink_->sent.clear();
  queue_.RunFor(milliseconds(2100));
  ASSERT_EQ(sink_->sent.size(), 2u);
  EXPECT_EQ(sink_->sent[0].heartbeat().sequence(), 2u) << "the first one came with welcome";
  EXPECT_EQ(sink_->sent[1].heartbeat().sequence(), 3u);
  EXPECT_EQ(sink_->sent[1].heartbeat().running_ranks(), 2u);
  EXPECT_EQ(sink_->sent[1].heartbeat().pending_log_bytes(), 42u);
  EXPECT_TRUE(sink_->sent[1].heartbeat().has_send_time());
}

TEST_F(AgentCoreTest, AnEphemeralAgentEndsWhenNobodyIsThereAndNothingRuns) {
  options_.ephemeral_after = seconds(6);
  StartAgent();
  Connect();
  Assign(WithStopAfter(Prepare(kJob1), 6));
  TellBegun(kJob1, 1);
  observer_.Take();
  core_->OnDisconnected(absl::UnavailableError("gone"));
  queue_.RunFor(seconds(8));
  EXPECT_THAT(observer_.Take(), ElementsAre("session lost")) << "the attempt is still there";
  TellStopped(kJob1, 2);
  queue_.RunFor(seconds(2));
  EXPECT_THAT(observer_.Take(), ElementsAre("abandoned"));
  EXPECT_THAT(launcher_->Take(), Contains("quit j1/1"));
  queue_.RunFor(seconds(20));
  EXPECT_THAT(observer_.Take(), Not(Contains("abandoned"))) << "told once";
}

TEST_F(AgentCoreTest, RanksOfAnEphemeralAgentHaveALeaseAlsoWhereTheJobAsksForNone) {
  options_.ephemeral_after = seconds(6);
  StartAgent();
  Connect();
  Assign(Prepare(kJob1));
  Assign(WithStopAfter(Prepare(kJob2), 6));
  EXPECT_EQ(launcher_->bootstraps.at(kJob1).lease_ms(), 60000u);
  EXPECT_EQ(launcher_->bootstraps.at(kJob2).lease_ms(), 6000u) << "the job's own word";
  TellBegun(kJob1, 1);
  v1::CoordinatorMessage message;
  message.mutable_heartbeat_ack()->set_sequence(1);
  Say(message);
  EXPECT_THAT(launcher_->renewals, Not(IsEmpty()));
}

TEST_F(AgentCoreTest, AnEphemeralAgentStaysWhileTheCoordinatorAnswers) {
  options_.ephemeral_after = seconds(6);
  StartAgent();
  Connect();
  for (uint64_t i = 1; i <= 20; ++i) {
    queue_.RunFor(seconds(1));
    v1::CoordinatorMessage message;
    message.mutable_heartbeat_ack()->set_sequence(i);
    Say(message);
  }
  EXPECT_THAT(observer_.Take(), Not(Contains("abandoned")));
}

TEST_F(AgentCoreTest, AnEphemeralAgentEndsWhenNobodyEverAnswers) {
  options_.ephemeral_after = seconds(6);
  StartAgent();
  queue_.RunFor(seconds(7));
  EXPECT_THAT(observer_.Take(), ElementsAre("abandoned"));
}

TEST_F(AgentCoreTest, ShowsNewFactsOnTheNextConnection) {
  StartAgent();
  v1::NodeFacts facts;
  facts.set_hostname("renamed");
  core_->SetFacts(facts);
  Dial();
  EXPECT_EQ(sink_->sent.at(0).hello().facts().hostname(), "renamed");
}

}  // namespace
}  // namespace muster::testing
