#include "agent/core/agent_state.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace muster {
namespace {

using internal::JournalAttempt;
using internal::JournalRank;
using internal::JournalRecord;

absl::Status Damaged(std::string_view what) {
  return absl::DataLossError(fmt::format("journal: {}", what));
}

void AddRanks(JournalAttempt& attempt) {
  for (const v1::RankSpec& rank : attempt.assignment().launch().ranks()) {
    attempt.add_ranks()->set_rank(rank.rank());
  }
}

void ApplyAssignment(AgentState& state, const v1::Assignment& assignment) {
  JournalAttempt& attempt = state.attempts[IdOf(assignment.key())];
  const bool is_new = !attempt.has_assignment();
  *attempt.mutable_assignment() = assignment;
  if (is_new) AddRanks(attempt);
  if (assignment.desired() == v1::Assignment::RUNNING) attempt.set_run_wanted(true);
}

void ApplyEvent(JournalAttempt& attempt, const v1::Event& event) {
  const auto set_rank = [&](uint32_t rank, JournalRank::State rank_state) {
    if (JournalRank* found = FindRank(attempt, rank)) found->set_state(rank_state);
  };
  switch (event.body_case()) {
    case v1::Event::kPrepared:
      attempt.set_prepared(true);
      break;
    case v1::Event::kRankStarted:
      set_rank(event.rank_started().rank(), JournalRank::RUNNING);
      break;
    case v1::Event::kRankExited:
      set_rank(event.rank_exited().rank(), JournalRank::EXITED);
      break;
    case v1::Event::kRankLost:
      set_rank(event.rank_lost().rank(), JournalRank::LOST);
      break;
    case v1::Event::kRankLogClosed:
      if (JournalRank* found = FindRank(attempt, event.rank_log_closed().rank())) {
        found->set_log_closed(true);
        found->set_log_size(event.rank_log_closed().size());
      }
      break;
    case v1::Event::kAttemptStopped:
      attempt.set_stopped(true);
      attempt.set_remains(event.attempt_stopped().unkillable_size() > 0);
      break;
    case v1::Event::kPrepareFailed:
    case v1::Event::kRankStalled:
    case v1::Event::kRankResumed:
    case v1::Event::kRendezvousProbed:
    case v1::Event::BODY_NOT_SET:
      break;
  }
}

absl::Status ApplyFacts(AgentState& state, const internal::JournalFacts& facts) {
  const auto found = state.attempts.find(IdOf(facts.key()));
  if (found == state.attempts.end()) return Damaged("facts about an attempt that is not held");
  JournalAttempt& attempt = found->second;
  if (facts.shim_index() != 0) {
    if (facts.shim_index() <= attempt.shim_index()) return Damaged("a shim's record came twice");
    attempt.set_shim_index(facts.shim_index());
  }
  if (!facts.own_reason().empty()) attempt.set_own_reason(facts.own_reason());
  for (const v1::Event& event : facts.events()) {
    if (event.seq() != state.last_seq() + 1) {
      return Damaged(fmt::format("event {} follows event {}", event.seq(), state.last_seq()));
    }
    ApplyEvent(attempt, event);
    state.events.push_back(event);
  }
  return absl::OkStatus();
}

absl::Status ApplyAcked(AgentState& state, uint64_t acked) {
  if (acked < state.acked_seq || acked > state.last_seq()) {
    return Damaged(fmt::format("acknowledgement of event {} while {} to {} are held", acked,
                               state.acked_seq + 1, state.last_seq()));
  }
  state.events.erase(state.events.begin(),
                     state.events.begin() + static_cast<int64_t>(acked - state.acked_seq));
  state.acked_seq = acked;
  return absl::OkStatus();
}

absl::Status ApplySnapshot(AgentState& state, const internal::JournalSnapshot& snapshot) {
  if (snapshot.format() != 1) {
    return Damaged(fmt::format("format {} is not known", snapshot.format()));
  }
  state = FreshState(snapshot.journal_id(), snapshot.boot_id());
  state.epoch = snapshot.epoch();
  state.acked_seq = snapshot.acked_seq();
  for (const v1::Event& event : snapshot.events()) {
    if (event.seq() != state.last_seq() + 1) return Damaged("events of the snapshot have a gap");
    state.events.push_back(event);
  }
  for (const JournalAttempt& attempt : snapshot.attempts()) {
    state.attempts[IdOf(attempt.assignment().key())] = attempt;
  }
  return absl::OkStatus();
}

}  // namespace

AttemptId IdOf(const v1::AttemptKey& key) { return {JobId(key.job_id()), key.attempt()}; }

v1::AttemptKey KeyOf(const AttemptId& id) {
  v1::AttemptKey key;
  key.set_job_id(id.job.value());
  key.set_attempt(id.attempt);
  return key;
}

std::vector<uint32_t> RanksOf(const JournalAttempt& attempt) {
  std::vector<uint32_t> ranks;
  for (const JournalRank& rank : attempt.ranks()) ranks.push_back(rank.rank());
  return ranks;
}

uint32_t RunningRanks(const JournalAttempt& attempt) {
  uint32_t running = 0;
  for (const JournalRank& rank : attempt.ranks()) {
    if (rank.state() == JournalRank::RUNNING) ++running;
  }
  return running;
}

JournalRank* FindRank(JournalAttempt& attempt, uint32_t rank) {
  for (JournalRank& candidate : *attempt.mutable_ranks()) {
    if (candidate.rank() == rank) return &candidate;
  }
  return nullptr;
}

absl::Status ApplyRecord(AgentState& state, const JournalRecord& record) {
  switch (record.body_case()) {
    case JournalRecord::kSnapshot:
      return ApplySnapshot(state, record.snapshot());
    case JournalRecord::kEpoch:
      if (record.epoch() < state.epoch) return Damaged("the epoch went back");
      state.epoch = record.epoch();
      return absl::OkStatus();
    case JournalRecord::kAssignment:
      ApplyAssignment(state, record.assignment());
      return absl::OkStatus();
    case JournalRecord::kFacts:
      return ApplyFacts(state, record.facts());
    case JournalRecord::kAckedSeq:
      return ApplyAcked(state, record.acked_seq());
    case JournalRecord::kForgotten:
      if (state.attempts.erase(IdOf(record.forgotten())) == 0) {
        return Damaged("an attempt was forgotten that is not held");
      }
      return absl::OkStatus();
    case JournalRecord::BODY_NOT_SET:
      break;
  }
  return Damaged("a record of an unknown kind");
}

JournalRecord SnapshotOf(const AgentState& state) {
  JournalRecord record;
  internal::JournalSnapshot& snapshot = *record.mutable_snapshot();
  snapshot.set_format(1);
  snapshot.set_journal_id(state.journal_id);
  snapshot.set_boot_id(state.boot_id);
  snapshot.set_epoch(state.epoch);
  snapshot.set_acked_seq(state.acked_seq);
  for (const v1::Event& event : state.events) *snapshot.add_events() = event;
  for (const auto& [id, attempt] : state.attempts) *snapshot.add_attempts() = attempt;
  return record;
}

AgentState FreshState(std::string journal_id, std::string boot_id) {
  AgentState state;
  state.journal_id = std::move(journal_id);
  state.boot_id = std::move(boot_id);
  return state;
}

}  // namespace muster
