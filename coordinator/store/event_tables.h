// The tables of the store: schema, writing and reading. One thread at a time.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <optional>
#include <string>

#include "coordinator/core/store.h"
#include "coordinator/store/sqlite_database.h"

namespace muster {

class EventTables {
 public:
  // Opens the file, makes the tables in an empty one, and checks that it is ours and of a known
  // version. `durable`: every commit waits for the disk.
  static absl::StatusOr<EventTables> Open(const std::string& path, bool create, bool durable);

  // Opens a file that nobody uses, for ReadAll only. Changes nothing on the disk.
  static absl::StatusOr<EventTables> OpenToRead(const std::string& path);

  // DATA_LOSS when tables, their indices and the pages that hold them do not fit together. Takes
  // about as long as ReadAll, whose checksums it completes: those notice what changed in a body,
  // and this what changed around the bodies, and what is missing.
  absl::Status Check();
  // Raises the epoch by one and returns it.
  absl::StatusOr<uint64_t> RaiseEpoch();
  absl::StatusOr<StoredState> ReadAll();
  // Writes `batch` in one transaction: all of it or, after an error, nothing.
  absl::Status Write(const StoreBatch& batch);

 private:
  explicit EventTables(SqliteDatabase database) : database_(std::move(database)) {}
  // True: ours, and of this version. False: an empty file.
  absl::StatusOr<bool> IsOurs();
  absl::Status CreateTables();
  absl::Status PrepareStatements();
  absl::Status WriteRows(const StoreBatch& batch);

  // First: statements end before the database closes.
  SqliteDatabase database_;
  std::optional<SqliteStatement> insert_event_;
  std::optional<SqliteStatement> replace_node_;
  std::optional<SqliteStatement> forget_job_;
};

}  // namespace muster
