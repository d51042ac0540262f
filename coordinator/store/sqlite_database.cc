#include "coordinator/store/sqlite_database.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "common/base/annotate.h"

namespace muster {

namespace {

// Without what has a meaning in a URI.
std::string EscapePath(std::string_view path) {
  std::string escaped;
  for (const char c : path) {
    const bool special = c == '%' || c == '?' || c == '#';
    escaped += special ? fmt::format("%{:02x}", static_cast<unsigned char>(c)) : std::string(1, c);
  }
  return escaped;
}

}  // namespace

absl::Status SqliteStatus(int code, sqlite3* database, std::string_view context) {
  const int primary = code & 0xff;
  if (primary == SQLITE_OK || primary == SQLITE_ROW || primary == SQLITE_DONE) {
    return absl::OkStatus();
  }
  std::string text =
      fmt::format("{}: {} (SQLite error {})", context,
                  database != nullptr ? sqlite3_errmsg(database) : sqlite3_errstr(code), code);
  // "disk I/O error" alone hides a full disk.
  const int cause = database != nullptr ? sqlite3_system_errno(database) : 0;
  if ((primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN) && cause != 0) {
    text += fmt::format(": {}", std::system_category().message(cause));
  }
  switch (primary) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
    case SQLITE_ERROR:  // a table that must be there is missing
      return absl::DataLossError(text);
    case SQLITE_FULL:
    case SQLITE_NOMEM:
      return absl::ResourceExhaustedError(text);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::FailedPreconditionError(text);
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_AUTH:
      return absl::PermissionDeniedError(text);
    default:
      return absl::UnavailableError(text);
  }
}

SqliteStatement& SqliteStatement::BindText(int parameter, std::string_view text) {
  // Binding fails only for a parameter that does not exist, which the next step reports as a
  // constraint.
  sqlite3_bind_text(statement_.get(), parameter, text.data(), static_cast<int>(text.size()),
                    SQLITE_STATIC);
  return *this;
}

SqliteStatement& SqliteStatement::BindBlob(int parameter, std::string_view bytes) {
  // A null pointer would be NULL, not an empty blob.
  const char* data = bytes.empty() ? "" : bytes.data();
  sqlite3_bind_blob(statement_.get(), parameter, data, static_cast<int>(bytes.size()),
                    SQLITE_STATIC);
  return *this;
}

SqliteStatement& SqliteStatement::BindInt(int parameter, int64_t value) {
  sqlite3_bind_int64(statement_.get(), parameter, value);
  return *this;
}

absl::Status SqliteStatement::Run() {
  const absl::StatusOr<bool> row = Next();
  if (!row.ok()) return row.status();
  if (*row) Reset();
  return absl::OkStatus();
}

absl::StatusOr<bool> SqliteStatement::Next() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  const absl::Status status = SqliteStatus(code, database_, sqlite3_sql(statement_.get()));
  Reset();
  if (!status.ok()) return status;
  return false;
}

std::string_view SqliteStatement::Bytes(int column) const {
  const void* data = sqlite3_column_blob(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return {static_cast<const char*>(data), data == nullptr ? 0 : static_cast<size_t>(size)};
}

int64_t SqliteStatement::Int(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

void SqliteStatement::Reset() {
  // Repeats the error of the last step, which was reported.
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
}

absl::StatusOr<SqliteDatabase> SqliteDatabase::Open(const std::string& path, bool create) {
  sqlite3* raw = nullptr;
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW;
  if (create) flags |= SQLITE_OPEN_CREATE;
  const int code = sqlite3_open_v2(path.c_str(), &raw, flags, nullptr);
  SqliteDatabase database(raw);
  if (code != SQLITE_OK) return SqliteStatus(code, raw, "open");
  sqlite3_extended_result_codes(raw, 1);
  return database;
}

absl::StatusOr<SqliteDatabase> SqliteDatabase::OpenToRead(const std::string& path) {
  std::error_code error;
  const auto log_bytes = std::filesystem::file_size(path + "-wal", error);
  const bool has_log = !error && log_bytes > 0;
  // A log is read only where locks are; those of unix-none are nothing. Together with the exclusive
  // mode its index is kept in memory instead of a file. Without a log not even that is needed.
  const std::string name = has_log ? path : fmt::format("file:{}?immutable=1", EscapePath(path));
  sqlite3* raw = nullptr;
  constexpr int kFlags =
      SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_URI;
  const int flags = has_log ? kFlags & ~SQLITE_OPEN_URI : kFlags;
  const int code = sqlite3_open_v2(name.c_str(), &raw, flags, has_log ? "unix-none" : nullptr);
  SqliteDatabase database(raw);
  if (code != SQLITE_OK) return SqliteStatus(code, raw, "open");
  sqlite3_extended_result_codes(raw, 1);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  const absl::Status set = database.Execute("PRAGMA locking_mode=EXCLUSIVE");
  if (!set.ok()) return set;
  return database;
}

absl::Status SqliteDatabase::Execute(const char* sql) {
  const int code = sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr);
  return SqliteStatus(code, database_.get(), sql);
}

absl::StatusOr<SqliteStatement> SqliteDatabase::Prepare(std::string_view sql) {
  sqlite3_stmt* raw = nullptr;
  const int code = sqlite3_prepare_v3(database_.get(), sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &raw, nullptr);
  if (code != SQLITE_OK) return SqliteStatus(code, database_.get(), sql);
  return SqliteStatement(database_.get(), raw);
}

absl::StatusOr<int64_t> SqliteDatabase::QueryInt(std::string_view sql) {
  absl::StatusOr<SqliteStatement> statement = Prepare(sql);
  if (!statement.ok()) return statement.status();
  const absl::StatusOr<bool> row = statement->Next();
  if (!row.ok()) return row.status();
  const int64_t value = *row ? statement->Int(0) : 0;
  statement->Reset();
  return value;
}

}  // namespace muster
