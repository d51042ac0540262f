#include "agent/core/shim_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using internal::JournalAttempt;
using internal::JournalFacts;
using internal::JournalRank;
using internal::ShimRankExited;
using internal::ShimRecord;
using ::testing::ElementsAre;

JournalAttempt TwoRanks(v1::Assignment::Desired desired = v1::Assignment::RUNNING) {
  JournalAttempt attempt;
  attempt.mutable_assignment()->mutable_key()->set_job_id("j1");
  attempt.mutable_assignment()->mutable_key()->set_attempt(1);
  attempt.mutable_assignment()->set_desired(desired);
  attempt.set_run_wanted(desired == v1::Assignment::RUNNING);
  attempt.set_prepared(desired == v1::Assignment::RUNNING);
  attempt.add_ranks()->set_rank(2);
  attempt.add_ranks()->set_rank(3);
  return attempt;
}

std::string Words(const JournalFacts& facts) {
  std::string words;
  for (const v1::Event& event : facts.events()) {
    if (!words.empty()) words += ", ";
    switch (event.body_case()) {
      case v1::Event::kPrepared:
        words += "prepared";
        break;
      case v1::Event::kPrepareFailed:
        words += "prepare failed: " + event.prepare_failed().problems(0).message();
        break;
      case v1::Event::kRankLost:
        words += "lost " + std::to_string(event.rank_lost().rank());
        break;
      case v1::Event::kRankLogClosed:
        words += "log " + std::to_string(event.rank_log_closed().rank()) + "=" +
                 std::to_string(event.rank_log_closed().size());
        break;
      case v1::Event::kAttemptStopped:
        words += "stopped";
        break;
      default:
        words += "?";
        break;
    }
  }
  return words;
}

TEST(FactsOf, ProposesTheNodesAddressesWithTheShimsPort) {
  JournalAttempt attempt = TwoRanks(v1::Assignment::PREPARED);
  ShimRecord record;
  record.set_index(2);
  record.set_time_ns(1'500'000'000);
  record.mutable_prepared()->set_port(29500);
  record.mutable_prepared()->add_warnings("careful");
  JournalFacts facts = FactsOf(attempt, record, {"10.0.0.1", "fd00::1"});
  ASSERT_EQ(facts.events_size(), 1);
  EXPECT_EQ(facts.shim_index(), 2u);
  EXPECT_THAT(facts.events(0).prepared().addresses(), ElementsAre()) << "not rank 0's node";
  EXPECT_THAT(facts.events(0).prepared().warnings(), ElementsAre("careful"));
  EXPECT_EQ(facts.events(0).event_time().seconds(), 1);
  EXPECT_EQ(facts.events(0).event_time().nanos(), 500'000'000);
  EXPECT_EQ(facts.events(0).key().job_id(), "j1");

  attempt.mutable_assignment()->mutable_launch()->mutable_rendezvous();
  facts = FactsOf(attempt, record, {"10.0.0.1", "fd00::1"});
  EXPECT_THAT(facts.events(0).prepared().addresses(), ElementsAre("10.0.0.1", "fd00::1"));
  EXPECT_EQ(facts.events(0).prepared().rendezvous_port(), 29500u);

  attempt.mutable_assignment()->mutable_launch()->mutable_rendezvous()->set_address("192.0.2.7");
  facts = FactsOf(attempt, record, {"10.0.0.1"});
  EXPECT_THAT(facts.events(0).prepared().addresses(), ElementsAre("192.0.2.7"));
}

TEST(FactsOf, EndsAnAttemptThatCannotBePrepared) {
  ShimRecord record;
  record.set_index(2);
  record.mutable_prepare_failed()->add_problems()->set_message("no such directory");
  EXPECT_EQ(Words(FactsOf(TwoRanks(v1::Assignment::PREPARED), record, {})),
            "prepare failed: no such directory, stopped");
}

TEST(FactsOf, TranslatesEveryKindOfExit) {
  ShimRecord record;
  record.set_index(5);
  ShimRankExited& exited = *record.mutable_rank_exited();
  exited.set_rank(3);
  exited.set_kind(ShimRankExited::CODE);
  exited.set_value(7);
  EXPECT_EQ(FactsOf(TwoRanks(), record, {}).events(0).rank_exited().status().exit_code(), 7);
  exited.set_kind(ShimRankExited::SIGNAL);
  exited.set_value(9);
  exited.set_oom_killed(true);
  exited.set_card_problem("module 3 is not ready");
  const JournalFacts facts = FactsOf(TwoRanks(), record, {});
  EXPECT_EQ(facts.events(0).rank_exited().rank(), 3u);
  EXPECT_EQ(facts.events(0).rank_exited().status().signal(), 9);
  EXPECT_TRUE(facts.events(0).rank_exited().status().oom_killed());
  EXPECT_EQ(facts.events(0).rank_exited().status().card_problem(), "module 3 is not ready");
  exited.set_kind(ShimRankExited::EXEC_FAILED);
  exited.set_value(2);
  exited.set_step("execve");
  exited.set_message("no such file");
  const JournalFacts failed = FactsOf(TwoRanks(), record, {});
  const v1::ExecFailure& failure = failed.events(0).rank_exited().status().exec_failure();
  EXPECT_EQ(failure.error_number(), 2);
  EXPECT_EQ(failure.step(), "execve");
  EXPECT_EQ(failure.message(), "no such file");
}

TEST(FactsOf, InventsNoStatusForARankThatTheLastRecordLeavesOpen) {
  JournalAttempt attempt = TwoRanks();
  attempt.mutable_ranks(0)->set_state(JournalRank::RUNNING);
  attempt.mutable_ranks(1)->set_state(JournalRank::EXITED);
  attempt.set_own_reason("the lease ran out");
  ShimRecord record;
  record.set_index(9);
  record.mutable_stopped()->set_killed_leftovers(3);
  record.mutable_stopped()->add_unkillable("rank 2, pid 77, state D");
  const JournalFacts facts = FactsOf(attempt, record, {});
  EXPECT_EQ(Words(facts), "lost 2, stopped");
  const v1::AttemptStopped& stopped = facts.events(1).attempt_stopped();
  EXPECT_EQ(stopped.killed_leftovers(), 3u);
  EXPECT_EQ(stopped.own_reason(), "the lease ran out");
  EXPECT_THAT(stopped.unkillable(), ElementsAre("rank 2, pid 77, state D"));
}

TEST(FactsOf, LosesNoRankThatWasNeverStarted) {
  ShimRecord record;
  record.set_index(3);
  record.mutable_stopped();
  EXPECT_EQ(Words(FactsOf(TwoRanks(v1::Assignment::STOPPED), record, {})), "stopped");
}

TEST(FactsOf, RemembersASelfStopWithoutAnEvent) {
  ShimRecord record;
  record.set_index(3);
  record.mutable_self_stop()->set_reason("lease");
  const JournalFacts facts = FactsOf(TwoRanks(), record, {});
  EXPECT_EQ(facts.events_size(), 0);
  EXPECT_EQ(facts.own_reason(), "lease");
}

TEST(FactsOfDeath, LosesRanksWithoutAnExitRecordAndClosesTheirFiles) {
  JournalAttempt attempt = TwoRanks();
  attempt.mutable_ranks(0)->set_state(JournalRank::EXITED);
  attempt.mutable_ranks(0)->set_log_closed(true);
  attempt.mutable_ranks(1)->set_state(JournalRank::RUNNING);
  Launcher::SweepResult swept;
  swept.killed = 2;
  swept.logs = {{2, 10}, {3, 20}};
  const JournalFacts facts = FactsOfDeath(attempt, "it died", swept, WallTime());
  EXPECT_EQ(Words(facts), "lost 3, log 3=20, stopped");
  EXPECT_EQ(facts.shim_index(), 0u);
  EXPECT_EQ(facts.events(0).rank_lost().reason(), "it died");
  EXPECT_EQ(facts.events(2).attempt_stopped().killed_leftovers(), 2u);
}

TEST(FactsOfDeath, LosesRanksThatWereToRunEvenWhenNoStartIsKnown) {
  JournalAttempt attempt = TwoRanks();
  attempt.mutable_assignment()->set_desired(v1::Assignment::STOPPED);
  EXPECT_EQ(Words(FactsOfDeath(attempt, "it died", {}, WallTime())),
            "lost 2, lost 3, log 2=0, log 3=0, stopped");
}

TEST(FactsOfDeath, FailsThePreparationOfWhatWasNotPrepared) {
  EXPECT_EQ(Words(FactsOfDeath(TwoRanks(v1::Assignment::PREPARED), "it died", {}, WallTime())),
            "prepare failed: it died, stopped");
}

TEST(FactsOfDeath, LosesWhatWasPreparedAndDied) {
  JournalAttempt attempt = TwoRanks(v1::Assignment::PREPARED);
  attempt.set_prepared(true);
  EXPECT_EQ(Words(FactsOfDeath(attempt, "it died", {}, WallTime())), "lost 2, lost 3, stopped");
}

TEST(FactsOfDeath, OnlyStopsWhatWasToStopBeforeItEverRan) {
  EXPECT_EQ(Words(FactsOfDeath(TwoRanks(v1::Assignment::STOPPED), "it died", {}, WallTime())),
            "stopped");
}

TEST(FactsOfNothing, TellsOnlyTheEndUnlessRanksAreLost) {
  EXPECT_EQ(Words(FactsOfNothing(TwoRanks(v1::Assignment::STOPPED), "", WallTime())), "stopped");
  EXPECT_EQ(Words(FactsOfNothing(TwoRanks(), "unknown", WallTime())), "lost 2, lost 3, stopped");
}

}  // namespace
}  // namespace muster
