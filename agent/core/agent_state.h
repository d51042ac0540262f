// What an agent remembers, and how records of its journal change it. Values and pure functions; the
// messages of the journal (internal/journal.proto) are the types themselves.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "muster/internal/journal.pb.h"
#include "muster/v1/agent.pb.h"

namespace muster {

struct AgentState {
  std::string journal_id;
  std::string boot_id;
  // Highest coordinator epoch seen.
  uint64_t epoch = 0;
  // Events up to this one are stored at the coordinator; `events` are those behind it, gapless.
  uint64_t acked_seq = 0;
  std::deque<v1::Event> events;
  std::map<AttemptId, internal::JournalAttempt> attempts;

  // `seq` of the newest event; `acked_seq` when none is held.
  uint64_t last_seq() const { return acked_seq + events.size(); }
};

AttemptId IdOf(const v1::AttemptKey& key);
v1::AttemptKey KeyOf(const AttemptId& id);
// Global ranks of an attempt, in local order.
std::vector<uint32_t> RanksOf(const internal::JournalAttempt& attempt);
// Ranks whose program was executed and that did not end.
uint32_t RunningRanks(const internal::JournalAttempt& attempt);
internal::JournalRank* FindRank(internal::JournalAttempt& attempt, uint32_t rank);

// Folds one record into the state. A record that cannot follow (a gap in `seq`, an attempt that is
// not there, an unknown body) is DATA_LOSS, and the state is then not to be used: journals are
// written by this code only, so such a record means damage.
absl::Status ApplyRecord(AgentState& state, const internal::JournalRecord& record);

// The record that stands for the whole state.
internal::JournalRecord SnapshotOf(const AgentState& state);

// The state of a new journal.
AgentState FreshState(std::string journal_id, std::string boot_id);

}  // namespace muster
