// The coordinator's Store in one SQLite file: events of jobs, one record per node, and the epoch.
//
// File: tables `events(seq, job, idx, crc, body)`, `nodes(node_id, crc, record)`, `epoch(value)`;
// `application_id` is 0x4D535452, `user_version` the version of the schema. Write-ahead log, held
// exclusively for the life of the object. Bodies are the protos of muster/internal/record.proto
// with their CRC-32, because SQLite does not notice bits that flipped.
//
// Methods are called on the loop thread. Committing happens on a thread of its own, so the loop
// never waits for the disk; only Open and Load do.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <string>

#include "common/base/executor.h"
#include "coordinator/core/store.h"

namespace muster {

struct SqliteStoreOptions {
  enum class Policy {
    // A batch is stored when the disk has it (fsync), and an error is an error.
    kStrict,
    // A batch is stored when the kernel has it, which survives the death of the process but not of
    // the
    // machine. What cannot be written is kept in memory, reported as stored, and written as soon as
    // that
    // works again: a full disk does not stop a local run.
    kBestEffort,
  };

  // Path of the file; made with mode 0600 when it is missing.
  std::string path;
  Policy policy = Policy::kStrict;
  // True: a damaged file is renamed to PATH.damaged-<time> and a new one begun, with a warning in
  // the log. False: Open or Load fail with DATA_LOSS and name the file.
  bool quarantine_damaged = false;
  // kBestEffort: told once when writing fails, and once when it works again. On the committing
  // thread.
  std::function<void(const std::string& message)> on_trouble;
};

class SqliteStore final : public Store {
 public:
  // Errors: DATA_LOSS (damaged), FAILED_PRECONDITION (no store of ours, of a newer version, or in
  // use), RESOURCE_EXHAUSTED, PERMISSION_DENIED, UNAVAILABLE. `executor` outlives the store.
  static absl::StatusOr<std::unique_ptr<SqliteStore>> Open(SqliteStoreOptions options,
                                                           Executor& executor);
  // Commits what was appended.
  ~SqliteStore() override;

  absl::StatusOr<StoredState> Load() override;
  void Append(StoreBatch batch, Done done) override;

  // Reads the store at `path` without taking it over: the epoch stays as it is, and so do the
  // files. The caller sees to it that nobody writes to it.
  static absl::StatusOr<StoredState> Peek(const std::string& path);

 private:
  class Impl;
  explicit SqliteStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
