// The agent's journal as a file: a record log (common/io/record_log) whose first record is a
// snapshot. Written with plain writes: what the kernel took survives the death of the agent, and a
// journal of another boot is of no use to anybody. Owns the file; one owner at a time (the daemon
// locks the state directory). Lives on the loop thread.
//
// A record's payload is its own size again (u32, little endian) and then a JournalRecord. With
// that, what a crash leaves in the middle of a write (a record cut short at the end of the file,
// dropped, as nothing was done on the strength of it) can be told from damage (anything else that
// is wrong): a damaged journal is renamed to `<path>.damaged-N` and a new one begun.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "agent/core/agent_store.h"
#include "common/io/record_log.h"

namespace muster {

class FileAgentStore final : public AgentStore {
 public:
  // `path` of the journal, in an existing directory that only the agent may write.
  explicit FileAgentStore(std::string path);

  absl::StatusOr<OpenedJournal> Open(const std::string& boot_id) override;
  absl::Status Append(const internal::JournalRecord& record) override;
  absl::Status Rewrite(const internal::JournalRecord& snapshot) override;
  uint64_t size_bytes() const override { return log_.size_bytes(); }

 private:
  absl::StatusOr<OpenedJournal> Begin(const std::string& boot_id, uint64_t epoch, std::string note);
  // Renames the journal and returns its new name.
  absl::StatusOr<std::string> PutAside();

  const std::string path_;
  RecordLogWriter log_;
};

// Folds the bytes of a journal. DATA_LOSS, with the position, when they are damaged; a last record
// that is cut short is left out. Pure.
absl::StatusOr<AgentState> ReadJournal(std::string_view bytes);

// Bytes of one record as they are in the file.
std::string EncodeJournalRecord(const internal::JournalRecord& record);

}  // namespace muster
