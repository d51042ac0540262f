// The records of a small journal, for tests of what stores them.
#pragma once

#include <vector>

#include "agent/core/agent_state.h"
#include "muster/internal/journal.pb.h"

namespace muster::testing {

inline std::vector<internal::JournalRecord> SampleRecords() {
  const AttemptId id{JobId("j1"), 1};
  std::vector<internal::JournalRecord> records;
  AgentState fresh = FreshState("0123456789abcdef", "boot-1");
  records.push_back(SnapshotOf(fresh));
  records.emplace_back().set_epoch(3);
  v1::Assignment& assignment = *records.emplace_back().mutable_assignment();
  *assignment.mutable_key() = KeyOf(id);
  assignment.set_generation(1);
  assignment.set_desired(v1::Assignment::PREPARED);
  assignment.mutable_launch()->add_argv("train");
  assignment.mutable_launch()->add_ranks()->set_rank(0);
  internal::JournalFacts& facts = *records.emplace_back().mutable_facts();
  *facts.mutable_key() = KeyOf(id);
  facts.set_shim_index(1);
  v1::Event& event = *facts.add_events();
  event.set_seq(1);
  *event.mutable_key() = KeyOf(id);
  event.mutable_prepared()->add_addresses("10.0.0.1");
  records.emplace_back().set_acked_seq(1);
  internal::JournalFacts& more = *records.emplace_back().mutable_facts();
  *more.mutable_key() = KeyOf(id);
  more.set_shim_index(2);
  v1::Event& stopped = *more.add_events();
  stopped.set_seq(2);
  *stopped.mutable_key() = KeyOf(id);
  stopped.mutable_attempt_stopped();
  return records;
}

}  // namespace muster::testing
