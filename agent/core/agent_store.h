// What the agent must not forget when it dies: one journal of small records, and the state that
// they add up to. An Append that returned OK survives the death of the agent process; a reboot of
// the node need not be survived, because the ranks do not survive it either. Lives on the loop
// thread; calls are short and block only in write(2). Implementations never interpret attempts or
// events.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <string>

#include "agent/core/agent_state.h"
#include "muster/internal/journal.pb.h"

namespace muster {

// What Open found.
struct OpenedJournal {
  // State after the last record. Fresh, with a new `journal_id`, when there was no journal, when it
  // was written under another boot, or when it was damaged.
  AgentState state;
  // Why the state is fresh although a journal was there, for the log. Empty otherwise.
  std::string note;
};

class AgentStore {
 public:
  virtual ~AgentStore() = default;

  // Reads the journal, or begins a new one with a new random journal id. `boot_id` is that of the
  // running kernel. A damaged journal is put aside, never guessed at and never deleted. Fails only
  // when a new one cannot be created. Called once, first.
  virtual absl::StatusOr<OpenedJournal> Open(const std::string& boot_id) = 0;

  // Adds one record: whole or, after an error or a crash, not at all. After an error nothing may be
  // appended until Rewrite succeeded.
  virtual absl::Status Append(const internal::JournalRecord& record) = 0;

  // Replaces everything by `snapshot` (a record whose body is `snapshot`), in one step: after a
  // crash either the old or the new journal is there. After an error the old one is as it was.
  virtual absl::Status Rewrite(const internal::JournalRecord& snapshot) = 0;

  // Bytes that the journal occupies, for the decision when to Rewrite.
  virtual uint64_t size_bytes() const = 0;
};

}  // namespace muster
