#include "coordinator/store/event_tables.h"

#include <fmt/format.h>

#include <utility>

#include "common/base/annotate.h"
#include "common/io/crc32.h"

namespace muster {
namespace {

constexpr int64_t kApplicationId = 0x4D535452;
constexpr int64_t kSchemaVersion = 1;

constexpr char kNoStore[] = "it is a database, but no store of a coordinator";

// Exclusive: one process only, and no shared-memory file beside the write-ahead log.
constexpr char kSettings[] =
    "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA temp_store=MEMORY;"
    "PRAGMA cell_size_check=ON;";

constexpr char kSchema[] =
    "BEGIN IMMEDIATE;"
    "CREATE TABLE epoch(value INTEGER NOT NULL);"
    "INSERT INTO epoch VALUES(0), (0);"
    "CREATE TABLE events(seq INTEGER PRIMARY KEY, job TEXT NOT NULL, idx INTEGER NOT NULL,"
    " crc INTEGER NOT NULL, body BLOB NOT NULL, UNIQUE(job, idx));"
    "CREATE TABLE nodes(node_id TEXT PRIMARY KEY, crc INTEGER NOT NULL, record BLOB NOT NULL)"
    " WITHOUT ROWID;"
    "PRAGMA application_id=1297306706; PRAGMA user_version=1;"
    "COMMIT;";
static_assert(kApplicationId == 1297306706 && kSchemaVersion == 1, "kSchema spells them out");

// Two rows say the same: one that changed by itself is noticed, -1. Stores of before have one.
constexpr char kSelectEpoch[] =
    "SELECT CASE WHEN min(value) = max(value) THEN max(value) ELSE -1 END FROM epoch";
constexpr char kRaiseEpoch[] =
    "INSERT INTO epoch SELECT value FROM epoch WHERE (SELECT count(*) FROM epoch) = 1;"
    "UPDATE epoch SET value = value + 1;";

template <typename Message>
absl::Status Decode(std::string_view bytes, int64_t crc, std::string_view what, Message* message) {
  if (static_cast<int64_t>(Crc32(bytes)) != crc) {
    return absl::DataLossError(fmt::format("{} has a wrong checksum", what));
  }
  if (!message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::DataLossError(fmt::format("{} is not readable", what));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<EventTables> EventTables::Open(const std::string& path, bool create, bool durable) {
  absl::StatusOr<SqliteDatabase> database = SqliteDatabase::Open(path, create);
  if (!database.ok()) return database.status();
  EventTables tables(*std::move(database));
  SqliteDatabase& db = tables.database_;
  // First: already the change to a write-ahead log would wait for the disk.
  absl::Status status = db.Execute(durable ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=OFF");
  if (status.ok()) status = db.Execute(kSettings);
  if (!status.ok()) return status;
  const absl::StatusOr<bool> ours = tables.IsOurs();
  if (!ours.ok()) return ours.status();
  if (!*ours) {
    if (!create) return absl::FailedPreconditionError(kNoStore);
    status = tables.CreateTables();
    if (!status.ok()) return status;
  }
  status = tables.PrepareStatements();
  if (!status.ok()) return status;
  return tables;
}

absl::StatusOr<EventTables> EventTables::OpenToRead(const std::string& path) {
  absl::StatusOr<SqliteDatabase> database = SqliteDatabase::OpenToRead(path);
  if (!database.ok()) return database.status();
  EventTables tables(*std::move(database));
  const absl::Status status =
      tables.database_.Execute("PRAGMA temp_store=MEMORY; PRAGMA cell_size_check=ON;");
  if (!status.ok()) return status;
  const absl::StatusOr<bool> ours = tables.IsOurs();
  if (!ours.ok()) return ours.status();
  if (!*ours) return absl::FailedPreconditionError(kNoStore);
  return tables;
}

absl::StatusOr<bool> EventTables::IsOurs() {
  const absl::StatusOr<int64_t> application = database_.QueryInt("PRAGMA application_id");
  if (!application.ok()) return application.status();
  const absl::StatusOr<int64_t> version = database_.QueryInt("PRAGMA user_version");
  if (!version.ok()) return version.status();
  if (*application == 0 && *version == 0) {
    const absl::StatusOr<int64_t> objects =
        database_.QueryInt("SELECT count(*) FROM sqlite_schema");
    if (!objects.ok()) return objects.status();
    if (*objects != 0) return absl::FailedPreconditionError(kNoStore);
    return false;
  }
  if (*application != kApplicationId) {
    return absl::FailedPreconditionError("it is the database of another program");
  }
  if (*version != kSchemaVersion) {
    return absl::FailedPreconditionError(
        fmt::format("it has version {}, this program knows version {}: use the newer program",
                    *version, kSchemaVersion));
  }
  return true;
}

absl::Status EventTables::CreateTables() {
  absl::Status status = database_.Execute(kSchema);
  if (!status.ok() && database_.InTransaction()) (void)database_.Execute("ROLLBACK");
  return status;
}

absl::Status EventTables::PrepareStatements() {
  const std::pair<std::optional<SqliteStatement>*, const char*> statements[] = {
      {&insert_event_, "INSERT INTO events(job, idx, crc, body) VALUES(?, ?, ?, ?)"},
      {&replace_node_, "INSERT OR REPLACE INTO nodes(node_id, crc, record) VALUES(?, ?, ?)"},
      {&forget_job_, "DELETE FROM events WHERE job = ?"},
  };
  for (const auto& [target, sql] : statements) {
    absl::StatusOr<SqliteStatement> statement = database_.Prepare(sql);
    if (!statement.ok()) return statement.status();
    target->emplace(*std::move(statement));
  }
  return absl::OkStatus();
}

absl::Status EventTables::Check() {
  // The index of `events` repeats every job and number: a row that is missing, or is another's, has
  // no partner.
  absl::StatusOr<SqliteStatement> check = database_.Prepare("PRAGMA integrity_check(1)");
  if (!check.ok()) return check.status();
  const absl::StatusOr<bool> row = check->Next();
  if (!row.ok()) return row.status();
  const std::string_view found = *row ? check->Bytes(0) : "nothing";
  if (found != "ok")
    return absl::DataLossError(fmt::format("the check of the file says {}", found));
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> EventTables::RaiseEpoch() {
  const absl::StatusOr<int64_t> before = database_.QueryInt(kSelectEpoch);
  if (!before.ok()) return before.status();
  if (*before < 0) return absl::DataLossError("the epoch is damaged");
  const absl::Status status = database_.Execute(kRaiseEpoch);
  if (!status.ok()) return status;
  const absl::StatusOr<int64_t> epoch = database_.QueryInt(kSelectEpoch);
  if (!epoch.ok()) return epoch.status();
  if (*epoch < 1) return absl::DataLossError("the epoch is missing");
  return static_cast<uint64_t>(*epoch);
}

absl::StatusOr<StoredState> EventTables::ReadAll() {
  StoredState state;
  const absl::StatusOr<int64_t> epoch = database_.QueryInt(kSelectEpoch);
  if (!epoch.ok()) return epoch.status();
  if (*epoch < 0) return absl::DataLossError("the epoch is damaged");
  state.epoch = static_cast<uint64_t>(*epoch);

  absl::StatusOr<SqliteStatement> events =
      database_.Prepare("SELECT job, idx, crc, body FROM events ORDER BY seq");
  if (!events.ok()) return events.status();
  for (;;) {
    const absl::StatusOr<bool> row = events->Next();
    if (!row.ok()) return row.status();
    if (!*row) break;
    StoredEvent& event = state.events.emplace_back();
    event.job = JobId(std::string(events->Bytes(0)));
    event.index = static_cast<uint64_t>(events->Int(1));
    const absl::Status decoded =
        Decode(events->Bytes(3), events->Int(2),
               fmt::format("event {} of job {}", event.index, event.job.value()), &event.event);
    if (!decoded.ok()) return decoded;
  }

  absl::StatusOr<SqliteStatement> nodes =
      database_.Prepare("SELECT node_id, crc, record FROM nodes ORDER BY node_id");
  if (!nodes.ok()) return nodes.status();
  for (;;) {
    const absl::StatusOr<bool> row = nodes->Next();
    if (!row.ok()) return row.status();
    if (!*row) break;
    const absl::Status decoded =
        Decode(nodes->Bytes(2), nodes->Int(1),
               fmt::format("the record of node {}", nodes->Bytes(0)), &state.nodes.emplace_back());
    if (!decoded.ok()) return decoded;
    if (state.nodes.back().node_id() != nodes->Bytes(0)) {
      return absl::DataLossError(fmt::format("the record of node {} is that of {}", nodes->Bytes(0),
                                             state.nodes.back().node_id()));
    }
  }
  return state;
}

absl::Status EventTables::Write(const StoreBatch& batch) {
  absl::Status status = database_.Execute("BEGIN IMMEDIATE");
  if (!status.ok()) return status;
  status = WriteRows(batch);
  if (status.ok()) status = database_.Execute("COMMIT");
  // SQLite has rolled back by itself after some errors.
  if (!status.ok() && database_.InTransaction()) (void)database_.Execute("ROLLBACK");
  return status;
}

absl::Status EventTables::WriteRows(const StoreBatch& batch) {
  for (const JobId& job : batch.forgotten_jobs) {
    const absl::Status status = forget_job_->BindText(1, job.value()).Run();
    if (!status.ok()) return status;
  }
  for (const StoredEvent& event : batch.events) {
    const std::string body = event.event.SerializeAsString();
    const absl::Status status = insert_event_->BindText(1, event.job.value())
                                    .BindInt(2, static_cast<int64_t>(event.index))
                                    .BindInt(3, Crc32(body))
                                    .BindBlob(4, body)
                                    .Run();
    if (!status.ok()) return status;
  }
  for (const internal::NodeRecord& node : batch.nodes) {
    const std::string record = node.SerializeAsString();
    const absl::Status status = replace_node_->BindText(1, node.node_id())
                                    .BindInt(2, Crc32(record))
                                    .BindBlob(3, record)
                                    .Run();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace muster
