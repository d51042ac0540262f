// AgentCore: what is journalled, and how events are told until they are acknowledged.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "agent/core/agent_core.h"
#include "agent/core/assignments.h"
#include "agent/core/describe.h"
#include "common/base/annotate.h"

namespace muster {
namespace {

using internal::JournalAttempt;
using internal::JournalFacts;
using internal::JournalRecord;
using Severity = AgentObserver::Severity;

// Events sent and not yet acknowledged, and the size of one message.
constexpr uint64_t kMaxEventsInFlight = 2048;
constexpr int kMaxBatchEvents = 256;
constexpr size_t kMaxBatchBytes = 256 * 1024;

}  // namespace

// --- Journal ---

void AgentCore::Journal(const JournalRecord& record) {
  if (journal_ok_) {
    const absl::Status status = store_.Append(record);
    if (!status.ok()) {
      journal_ok_ = false;
      Notice(Severity::kError, fmt::format("journal cannot be written, trying again error=\"{}\"",
                                           MessageOf(status)));
    }
  }
  const absl::Status applied = ApplyRecord(state_, record);
  if (!applied.ok()) {
    // The record was made from this very state, so this is a mistake in the agent. Going on would
    // make a journal that nobody can read.
    Notice(Severity::kError, fmt::format("bug: {}", MessageOf(applied)));
    std::abort();
  }
  if (!journal_ok_) return;
  durable_seq_ = state_.last_seq();
  if (store_.size_bytes() > compact_at_bytes_) RewriteJournal();
}

void AgentCore::JournalAssignment(const v1::Assignment& assignment) {
  const AttemptId id = IdOf(assignment.key());
  const auto held = state_.attempts.find(id);
  const bool is_new = held == state_.attempts.end();
  // Once nothing runs any more there is nothing to stop.
  const bool stops = EndsRanks(assignment) && !is_new && !held->second.stopped() &&
                     !EndsRanks(held->second.assignment());
  JournalRecord record;
  *record.mutable_assignment() = assignment;
  Journal(record);
  if (stops) {
    TellDeed(Deed::Kind::kStop, id, "", fmt::format("within {} ms", GraceOf(assignment).count()));
  }
  Notice(Severity::kInfo,
         fmt::format("assignment {} generation={} desired={}", Describe(id),
                     assignment.generation(), v1::Assignment::Desired_Name(assignment.desired())));
  if (is_new) Announce(id);
  ScheduleReconcile();
}

void AgentCore::JournalFactsOf(JournalFacts facts) {
  uint64_t seq = state_.last_seq();
  for (v1::Event& event : *facts.mutable_events()) event.set_seq(++seq);
  JournalRecord record;
  *record.mutable_facts() = std::move(facts);
  Journal(record);
  const AttemptId id = IdOf(record.facts().key());
  for (const v1::Event& event : record.facts().events()) {
    Notice(Severity::kInfo, fmt::format("{} {}", DescribeEvent(event), Describe(id)));
    if (event.has_rank_log_closed()) {
      observer_.OnLogClosed(id, event.rank_log_closed().rank(), event.rank_log_closed().size());
    }
  }
  ScheduleFlush();
  ScheduleReconcile();
}

bool AgentCore::RewriteJournal() {
  const absl::Status status = store_.Rewrite(SnapshotOf(state_));
  if (!status.ok()) {
    Notice(Severity::kWarning,
           fmt::format("journal cannot be rewritten error=\"{}\"", MessageOf(status)));
    compact_at_bytes_ = 2 * store_.size_bytes();
    return false;
  }
  compact_at_bytes_ = std::max(options_.compact_bytes, 4 * store_.size_bytes());
  return true;
}

void AgentCore::Announce(const AttemptId& id) {
  const JournalAttempt& attempt = state_.attempts.at(id);
  observer_.OnAttempt(id, RanksOf(attempt));
  for (const internal::JournalRank& rank : attempt.ranks()) {
    if (rank.log_closed()) observer_.OnLogClosed(id, rank.rank(), rank.log_size());
  }
}

// --- Telling events ---

void AgentCore::ScheduleFlush() {
  if (std::exchange(flush_posted_, true)) return;
  PostSelf(&AgentCore::FlushEvents);
}

void AgentCore::FlushEvents() {
  flush_posted_ = false;
  while (session_.open() && sent_seq_ < durable_seq_ &&
         sent_seq_ - state_.acked_seq < kMaxEventsInFlight) {
    v1::EventBatch batch;
    size_t bytes = 0;
    uint64_t seq = sent_seq_;
    while (seq < durable_seq_ && batch.events_size() < kMaxBatchEvents && bytes < kMaxBatchBytes) {
      const v1::Event& event = state_.events[seq - state_.acked_seq];
      *batch.add_events() = event;
      bytes += event.ByteSizeLong();
      ++seq;
    }
    if (!session_.SendEvents(std::move(batch))) return;
    sent_seq_ = seq;
  }
}

}  // namespace muster
