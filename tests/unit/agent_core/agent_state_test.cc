#include "agent/core/agent_state.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

using internal::JournalRank;
using internal::JournalRecord;

const AttemptId kId{JobId("j1"), 1};

JournalRecord AssignmentRecord(uint64_t generation, v1::Assignment::Desired desired) {
  JournalRecord record;
  v1::Assignment& assignment = *record.mutable_assignment();
  *assignment.mutable_key() = KeyOf(kId);
  assignment.set_generation(generation);
  assignment.set_desired(desired);
  assignment.mutable_launch()->add_ranks()->set_rank(4);
  assignment.mutable_launch()->add_ranks()->set_rank(5);
  return record;
}

JournalRecord FactsRecord(uint64_t shim_index) {
  JournalRecord record;
  *record.mutable_facts()->mutable_key() = KeyOf(kId);
  record.mutable_facts()->set_shim_index(shim_index);
  return record;
}

v1::Event& AddEvent(JournalRecord& record, uint64_t seq) {
  v1::Event& event = *record.mutable_facts()->add_events();
  event.set_seq(seq);
  *event.mutable_key() = KeyOf(kId);
  return event;
}

AgentState WithAttempt() {
  AgentState state = FreshState("journal", "boot");
  EXPECT_TRUE(ApplyRecord(state, AssignmentRecord(1, v1::Assignment::PREPARED)).ok());
  return state;
}

TEST(ApplyRecord, FollowsARankThroughItsLife) {
  AgentState state = WithAttempt();
  EXPECT_EQ(RanksOf(state.attempts.at(kId)), (std::vector<uint32_t>{4, 5}));
  JournalRecord record = FactsRecord(1);
  AddEvent(record, 1).mutable_prepared();
  ASSERT_TRUE(ApplyRecord(state, record).ok());
  EXPECT_TRUE(state.attempts.at(kId).prepared());

  record = FactsRecord(2);
  AddEvent(record, 2).mutable_rank_started()->set_rank(5);
  ASSERT_TRUE(ApplyRecord(state, record).ok());
  EXPECT_EQ(RunningRanks(state.attempts.at(kId)), 1u);
  EXPECT_EQ(FindRank(state.attempts.at(kId), 5)->state(), JournalRank::RUNNING);

  record = FactsRecord(3);
  AddEvent(record, 3).mutable_rank_exited()->set_rank(5);
  v1::Event& closed = AddEvent(record, 4);
  closed.mutable_rank_log_closed()->set_rank(5);
  closed.mutable_rank_log_closed()->set_size(100);
  AddEvent(record, 5).mutable_rank_lost()->set_rank(4);
  AddEvent(record, 6).mutable_attempt_stopped();
  ASSERT_TRUE(ApplyRecord(state, record).ok());
  const internal::JournalAttempt& attempt = state.attempts.at(kId);
  EXPECT_EQ(attempt.shim_index(), 3u);
  EXPECT_TRUE(attempt.stopped());
  EXPECT_EQ(attempt.ranks(0).state(), JournalRank::LOST);
  EXPECT_EQ(attempt.ranks(1).state(), JournalRank::EXITED);
  EXPECT_EQ(attempt.ranks(1).log_size(), 100u);
  EXPECT_EQ(state.last_seq(), 6u);
}

TEST(ApplyRecord, RemembersThatRanksWereToRun) {
  AgentState state = WithAttempt();
  EXPECT_FALSE(state.attempts.at(kId).run_wanted());
  ASSERT_TRUE(ApplyRecord(state, AssignmentRecord(2, v1::Assignment::RUNNING)).ok());
  ASSERT_TRUE(ApplyRecord(state, AssignmentRecord(3, v1::Assignment::STOPPED)).ok());
  EXPECT_TRUE(state.attempts.at(kId).run_wanted());
  EXPECT_EQ(state.attempts.at(kId).ranks_size(), 2);
}

TEST(ApplyRecord, DropsAcknowledgedEventsOnly) {
  AgentState state = WithAttempt();
  JournalRecord record = FactsRecord(1);
  for (uint64_t seq = 1; seq <= 5; ++seq) AddEvent(record, seq).mutable_prepared();
  ASSERT_TRUE(ApplyRecord(state, record).ok());
  JournalRecord ack;
  ack.set_acked_seq(3);
  ASSERT_TRUE(ApplyRecord(state, ack).ok());
  EXPECT_EQ(state.events.size(), 2u);
  EXPECT_EQ(state.events.front().seq(), 4u);
  EXPECT_EQ(state.last_seq(), 5u);
}

TEST(ApplyRecord, KeepsEventsOfAForgottenAttempt) {
  AgentState state = WithAttempt();
  JournalRecord record = FactsRecord(1);
  AddEvent(record, 1).mutable_attempt_stopped();
  ASSERT_TRUE(ApplyRecord(state, record).ok());
  JournalRecord forgotten;
  *forgotten.mutable_forgotten() = KeyOf(kId);
  ASSERT_TRUE(ApplyRecord(state, forgotten).ok());
  EXPECT_TRUE(state.attempts.empty());
  EXPECT_EQ(state.events.size(), 1u);
}

TEST(ApplyRecord, RefusesWhatCannotFollow) {
  const auto refuses = [](const JournalRecord& record) {
    AgentState state = WithAttempt();
    state.epoch = 5;
    return ApplyRecord(state, record).code() == absl::StatusCode::kDataLoss;
  };
  JournalRecord gap = FactsRecord(1);
  AddEvent(gap, 2).mutable_prepared();
  EXPECT_TRUE(refuses(gap));
  JournalRecord unknown_attempt = FactsRecord(1);
  unknown_attempt.mutable_facts()->mutable_key()->set_attempt(9);
  EXPECT_TRUE(refuses(unknown_attempt));
  JournalRecord ack;
  ack.set_acked_seq(1);
  EXPECT_TRUE(refuses(ack)) << "nothing to acknowledge";
  JournalRecord epoch;
  epoch.set_epoch(4);
  EXPECT_TRUE(refuses(epoch));
  JournalRecord forgotten;
  forgotten.mutable_forgotten()->set_job_id("other");
  EXPECT_TRUE(refuses(forgotten));
  JournalRecord format;
  format.mutable_snapshot()->set_format(2);
  EXPECT_TRUE(refuses(format));
  EXPECT_TRUE(refuses(JournalRecord()));

  AgentState state = WithAttempt();
  ASSERT_TRUE(ApplyRecord(state, FactsRecord(7)).ok());
  EXPECT_FALSE(ApplyRecord(state, FactsRecord(7)).ok()) << "the same record twice";
}

TEST(SnapshotOf, StandsForTheWholeState) {
  AgentState state = WithAttempt();
  state.epoch = 3;
  JournalRecord record = FactsRecord(2);
  AddEvent(record, 1).mutable_prepared();
  AddEvent(record, 2).mutable_rank_started()->set_rank(4);
  record.mutable_facts()->set_own_reason("lease");
  ASSERT_TRUE(ApplyRecord(state, record).ok());
  JournalRecord ack;
  ack.set_acked_seq(1);
  ASSERT_TRUE(ApplyRecord(state, ack).ok());

  AgentState copy;
  ASSERT_TRUE(ApplyRecord(copy, SnapshotOf(state)).ok());
  EXPECT_EQ(SnapshotOf(copy).SerializeAsString(), SnapshotOf(state).SerializeAsString());
  EXPECT_EQ(copy.journal_id, "journal");
  EXPECT_EQ(copy.boot_id, "boot");
  EXPECT_EQ(copy.last_seq(), 2u);
  EXPECT_EQ(copy.attempts.at(kId).own_reason(), "lease");
}

}  // namespace
}  // namespace muster
