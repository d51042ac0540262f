// The little of SQLite that the store needs, with absl::Status for errors. One thread at a time.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace muster {

// Status of an SQLite result code. DATA_LOSS: the file is damaged or no database.
// RESOURCE_EXHAUSTED: no space. FAILED_PRECONDITION: locked by another process. UNAVAILABLE: any
// other failure of the disk.
absl::Status SqliteStatus(int code, sqlite3* database, std::string_view context);

// A prepared statement. Parameters and columns count from 1 and from 0, as SQLite does.
class SqliteStatement {
 public:
  SqliteStatement(sqlite3* database, sqlite3_stmt* statement)
      : database_(database), statement_(statement) {}

  // Bytes must stay valid until the next Run or Reset.
  SqliteStatement& BindText(int parameter, std::string_view text);
  SqliteStatement& BindBlob(int parameter, std::string_view bytes);
  SqliteStatement& BindInt(int parameter, int64_t value);

  // Runs a statement without results and makes it ready for the next use.
  absl::Status Run();
  // Fetches the next row: true, or false at the end. After an error or the end it is ready again.
  absl::StatusOr<bool> Next();
  // Columns of the current row, valid until Next.
  std::string_view Bytes(int column) const;
  int64_t Int(int column) const;
  void Reset();

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  sqlite3* database_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

class SqliteDatabase {
 public:
  // `create`: make the file when it is missing.
  static absl::StatusOr<SqliteDatabase> Open(const std::string& path, bool create);
  // For reading what nobody writes, with its write-ahead log. Takes no lock, makes no file and
  // changes none, so that a full disk does not matter.
  static absl::StatusOr<SqliteDatabase> OpenToRead(const std::string& path);

  // Runs statements separated by semicolons, without parameters or results.
  absl::Status Execute(const char* sql);
  absl::StatusOr<SqliteStatement> Prepare(std::string_view sql);
  // First column of the first row; 0 when there is no row.
  absl::StatusOr<int64_t> QueryInt(std::string_view sql);
  bool InTransaction() const { return sqlite3_get_autocommit(database_.get()) == 0; }

 private:
  struct Close {
    void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
  };
  explicit SqliteDatabase(sqlite3* database) : database_(database) {}

  std::unique_ptr<sqlite3, Close> database_;
};

}  // namespace muster
