#include "coordinator/trust/trust_tables.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "common/base/annotate.h"
#include "common/io/unique_fd.h"

namespace muster {
namespace {

constexpr int64_t kApplicationId = 0x4D535454;
constexpr int64_t kSchemaVersion = 3;
constexpr std::chrono::hours kKeepEnded{24 * 7};
// Longer than a member may come back with one.
constexpr std::chrono::hours kKeepEndedCertificates{24 * 60};

constexpr char kSettings[] =
    "PRAGMA busy_timeout=5000; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
    "PRAGMA temp_store=MEMORY; PRAGMA secure_delete=ON; PRAGMA cell_size_check=ON;";

constexpr char kSchema[] =
    "CREATE TABLE tokens(id TEXT PRIMARY KEY, key BLOB NOT NULL, role INTEGER NOT NULL,"
    " bound_name TEXT NOT NULL, bound_network TEXT NOT NULL, uses_left INTEGER NOT NULL,"
    " created_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE members(kind INTEGER NOT NULL, name TEXT NOT NULL, spki BLOB NOT NULL,"
    " serial TEXT NOT NULL, not_after_ms INTEGER NOT NULL, revoked INTEGER NOT NULL,"
    " joined_ms INTEGER NOT NULL, token_id TEXT NOT NULL, machine_id TEXT NOT NULL,"
    " boot_id TEXT NOT NULL, authorities BLOB NOT NULL DEFAULT x'', PRIMARY KEY(kind, name)) "
    "WITHOUT ROWID;"
    "CREATE TABLE certificates(serial TEXT PRIMARY KEY, kind INTEGER NOT NULL,"
    " name TEXT NOT NULL, spki BLOB NOT NULL, issued_ms INTEGER NOT NULL,"
    " not_after_ms INTEGER NOT NULL, revoked INTEGER NOT NULL, der BLOB NOT NULL,"
    " successor TEXT NOT NULL DEFAULT '') WITHOUT ROWID;"
    "CREATE INDEX certificates_of ON certificates(kind, name);"
    "PRAGMA application_id=1297306708; PRAGMA user_version=3;";
// From version 1, and from there on.
constexpr char kUpgradeTo2[] =
    "ALTER TABLE members ADD COLUMN authorities BLOB NOT NULL DEFAULT x'';";
constexpr char kUpgradeTo3[] =
    "ALTER TABLE certificates ADD COLUMN successor TEXT NOT NULL DEFAULT '';"
    "PRAGMA user_version=3;";
static_assert(kApplicationId == 1297306708 && kSchemaVersion == 3, "kSchema spells them out");

constexpr char kTokenColumns[] =
    "SELECT id, key, role, bound_name, bound_network, uses_left, created_ms, expires_ms"
    " FROM tokens";
constexpr char kMemberColumns[] =
    "SELECT kind, name, spki, serial, not_after_ms, revoked, joined_ms, token_id, machine_id,"
    " boot_id, authorities FROM members";

int64_t Milliseconds(WallTime time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}
WallTime FromMilliseconds(int64_t milliseconds) {
  return WallTime(std::chrono::milliseconds(milliseconds));
}
std::string Text(const SqliteStatement& row, int column) { return std::string(row.Bytes(column)); }

StoredToken TokenOf(const SqliteStatement& row) {
  return {.id = Text(row, 0),
          .key = Text(row, 1),
          .role = static_cast<IdentityKind>(row.Int(2)),
          .bound_name = Text(row, 3),
          .bound_network = Text(row, 4),
          .uses_left = row.Int(5),
          .created_at = FromMilliseconds(row.Int(6)),
          .expires_at = FromMilliseconds(row.Int(7))};
}

Member MemberOf(const SqliteStatement& row) {
  return {.kind = static_cast<IdentityKind>(row.Int(0)),
          .name = Text(row, 1),
          .spki_sha256 = Text(row, 2),
          .serial = Text(row, 3),
          .not_after = FromMilliseconds(row.Int(4)),
          .revoked = row.Int(5) != 0,
          .joined_at = FromMilliseconds(row.Int(6)),
          .token_id = Text(row, 7),
          .machine_id = Text(row, 8),
          .boot_id = Text(row, 9),
          .authorities = Text(row, 10)};
}

IssuedCertificate CertificateOf(const SqliteStatement& row) {
  return {.serial = Text(row, 0),
          .kind = static_cast<IdentityKind>(row.Int(1)),
          .name = Text(row, 2),
          .spki_sha256 = Text(row, 3),
          .issued_at = FromMilliseconds(row.Int(4)),
          .not_after = FromMilliseconds(row.Int(5)),
          .revoked = row.Int(6) != 0,
          .der = Text(row, 7),
          .successor = Text(row, 8)};
}

// All rows of a statement, each made by `make`.
template <typename Make>
auto Rows(absl::StatusOr<SqliteStatement> statement, Make make)
    -> absl::StatusOr<std::vector<decltype(make(*statement))>> {
  if (!statement.ok()) return statement.status();
  std::vector<decltype(make(*statement))> rows;
  while (true) {
    const absl::StatusOr<bool> more = statement->Next();
    if (!more.ok()) return more.status();
    if (!*more) return rows;
    rows.push_back(make(*statement));
  }
}

// The row of a statement that has none or one.
template <typename Make>
auto Row(SqliteStatement& statement, Make make)
    -> absl::StatusOr<std::optional<decltype(make(statement))>> {
  const absl::StatusOr<bool> found = statement.Next();
  if (!found.ok()) return found.status();
  if (!*found) return std::nullopt;
  auto row = std::make_optional(make(statement));
  statement.Reset();
  return row;
}

absl::Status MakeFile(const std::string& path) {
  // SQLite would give it the mode of the umask; its other files take the mode of this one.
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return ErrnoStatus(errno, path);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TrustTables> TrustTables::Open(const std::string& path) {
  if (absl::Status made = MakeFile(path); !made.ok()) return made;
  absl::StatusOr<SqliteDatabase> database = SqliteDatabase::Open(path, /*create=*/true);
  if (!database.ok()) return Annotate(database.status(), path);
  TrustTables tables(*std::move(database));
  SqliteDatabase& db = tables.database_;
  if (absl::Status set = db.Execute(kSettings); !set.ok()) return Annotate(set, path);
  const absl::Status made = tables.Transaction([&]() -> absl::Status {
    const absl::StatusOr<int64_t> count = db.QueryInt("SELECT count(*) FROM sqlite_schema");
    if (!count.ok()) return count.status();
    if (*count == 0) return db.Execute(kSchema);
    const absl::StatusOr<int64_t> application = db.QueryInt("PRAGMA application_id");
    if (!application.ok()) return application.status();
    if (*application != kApplicationId) {
      return absl::DataLossError("it is a database, but not of a cluster's tokens and members");
    }
    const absl::StatusOr<int64_t> version = db.QueryInt("PRAGMA user_version");
    if (!version.ok()) return version.status();
    if (*version == 1) {
      if (absl::Status done = db.Execute(kUpgradeTo2); !done.ok()) return done;
    }
    if (*version == 1 || *version == 2) return db.Execute(kUpgradeTo3);
    if (*version != kSchemaVersion) {
      return absl::FailedPreconditionError(
          fmt::format("it is of version {}, this program reads {} (use the program that wrote it)",
                      *version, kSchemaVersion));
    }
    return absl::OkStatus();
  });
  if (!made.ok()) return Annotate(made, path);
  return tables;
}

template <typename Body>
absl::Status TrustTables::Transaction(Body body) {
  if (absl::Status begun = database_.Execute("BEGIN IMMEDIATE"); !begun.ok()) return begun;
  absl::Status done = body();
  if (done.ok()) done = database_.Execute("COMMIT");
  // The error that counts is the one before.
  if (!done.ok() && database_.InTransaction()) (void)database_.Execute("ROLLBACK");
  return done;
}

absl::Status TrustTables::AddToken(const StoredToken& token) {
  return Transaction([&]() -> absl::Status {
    auto forget = database_.Prepare("DELETE FROM tokens WHERE expires_ms < ?1");
    if (!forget.ok()) return forget.status();
    absl::Status forgotten = forget->BindInt(1, Milliseconds(token.created_at - kKeepEnded)).Run();
    if (!forgotten.ok()) return forgotten;
    auto insert = database_.Prepare("INSERT INTO tokens VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)");
    if (!insert.ok()) return insert.status();
    return insert->BindText(1, token.id)
        .BindBlob(2, token.key)
        .BindInt(3, static_cast<int64_t>(token.role))
        .BindText(4, token.bound_name)
        .BindText(5, token.bound_network)
        .BindInt(6, token.uses_left)
        .BindInt(7, Milliseconds(token.created_at))
        .BindInt(8, Milliseconds(token.expires_at))
        .Run();
  });
}

absl::Status TrustTables::RemoveToken(std::string_view id) {
  return Transaction([&]() -> absl::Status {
    auto remove = database_.Prepare("DELETE FROM tokens WHERE id = ?1");
    if (!remove.ok()) return remove.status();
    if (absl::Status removed = remove->BindText(1, id).Run(); !removed.ok()) return removed;
    const absl::StatusOr<int64_t> count = database_.QueryInt("SELECT changes()");
    if (!count.ok()) return count.status();
    return *count == 0 ? absl::NotFoundError(fmt::format("there is no token '{}'", id))
                       : absl::OkStatus();
  });
}

absl::StatusOr<std::vector<StoredToken>> TrustTables::ListTokens() {
  return Rows(database_.Prepare(fmt::format("{} ORDER BY created_ms, id", kTokenColumns)), TokenOf);
}

absl::StatusOr<std::optional<StoredToken>> TrustTables::FindToken(std::string_view id) {
  auto select = database_.Prepare(fmt::format("{} WHERE id = ?1", kTokenColumns));
  if (!select.ok()) return select.status();
  return Row(select->BindText(1, id), TokenOf);
}

absl::StatusOr<std::vector<Member>> TrustTables::ListMembers() {
  return Rows(database_.Prepare(fmt::format("{} ORDER BY kind, name", kMemberColumns)), MemberOf);
}

absl::StatusOr<std::optional<Member>> TrustTables::FindMember(IdentityKind kind,
                                                              std::string_view name) {
  return ReadMember(kind, name);
}

absl::StatusOr<std::optional<Member>> TrustTables::ReadMember(IdentityKind kind,
                                                              std::string_view name) {
  auto select = database_.Prepare(fmt::format("{} WHERE kind = ?1 AND name = ?2", kMemberColumns));
  if (!select.ok()) return select.status();
  return Row(select->BindInt(1, static_cast<int64_t>(kind)).BindText(2, name), MemberOf);
}

absl::StatusOr<std::optional<IssuedCertificate>> TrustTables::FindCertificate(
    std::string_view serial) {
  auto select = database_.Prepare(
      "SELECT serial, kind, name, spki, issued_ms, not_after_ms, revoked, der, successor"
      " FROM certificates WHERE serial = ?1");
  if (!select.ok()) return select.status();
  return Row(select->BindText(1, serial), CertificateOf);
}

absl::Status TrustTables::SpendUse(const std::string& token_id, WallTime now) {
  auto update = database_.Prepare(
      "UPDATE tokens SET uses_left = uses_left - 1"
      " WHERE id = ?1 AND uses_left > 0 AND expires_ms > ?2");
  if (!update.ok()) return update.status();
  absl::Status updated = update->BindText(1, token_id).BindInt(2, Milliseconds(now)).Run();
  if (!updated.ok()) return updated;
  const absl::StatusOr<int64_t> count = database_.QueryInt("SELECT changes()");
  if (!count.ok()) return count.status();
  return *count == 1 ? absl::OkStatus()
                     : absl::AbortedError("the token was spent, ended or removed a moment ago");
}

absl::Status TrustTables::PutCertificate(const IssuedCertificate& certificate) {
  auto insert =
      database_.Prepare("INSERT INTO certificates VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)");
  if (!insert.ok()) return insert.status();
  return insert->BindText(1, certificate.serial)
      .BindInt(2, static_cast<int64_t>(certificate.kind))
      .BindText(3, certificate.name)
      .BindBlob(4, certificate.spki_sha256)
      .BindInt(5, Milliseconds(certificate.issued_at))
      .BindInt(6, Milliseconds(certificate.not_after))
      .BindInt(7, certificate.revoked ? 1 : 0)
      .BindBlob(8, certificate.der)
      .BindText(9, certificate.successor)
      .Run();
}

absl::Status TrustTables::PutMember(const Member& member, const IssuedCertificate& certificate) {
  const absl::StatusOr<std::optional<Member>> before = ReadMember(member.kind, member.name);
  if (!before.ok()) return before.status();
  const bool other_key = *before && (*before)->spki_sha256 != member.spki_sha256;
  if (*before && ((*before)->revoked || (other_key && member.kind != IdentityKind::kUser))) {
    return absl::AlreadyExistsError(
        fmt::format("the name '{}' was taken a moment ago or is of a "
                    "{} that was revoked",
                    member.name, IdentityKindName(member.kind)));
  }
  auto insert = database_.Prepare(
      "INSERT OR REPLACE INTO members VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)");
  if (!insert.ok()) return insert.status();
  absl::Status inserted = insert->BindInt(1, static_cast<int64_t>(member.kind))
                              .BindText(2, member.name)
                              .BindBlob(3, member.spki_sha256)
                              .BindText(4, member.serial)
                              .BindInt(5, Milliseconds(member.not_after))
                              .BindInt(6, member.revoked ? 1 : 0)
                              .BindInt(7, Milliseconds(member.joined_at))
                              .BindText(8, member.token_id)
                              .BindText(9, member.machine_id)
                              .BindText(10, member.boot_id)
                              .BindBlob(11, member.authorities)
                              .Run();
  return inserted.ok() ? PutCertificate(certificate) : inserted;
}

absl::Status TrustTables::Enrol(const Member& member, const IssuedCertificate& certificate,
                                WallTime now) {
  return Transaction([&]() -> absl::Status {
    absl::Status spent = SpendUse(member.token_id, now);
    return spent.ok() ? PutMember(member, certificate) : spent;
  });
}

absl::Status TrustTables::AddMember(const Member& member, const IssuedCertificate& certificate) {
  return Transaction([&] { return PutMember(member, certificate); });
}

absl::Status TrustTables::ForgetEnded(IdentityKind kind, std::string_view name, WallTime now) {
  auto forget = database_.Prepare(
      "DELETE FROM certificates WHERE kind = ?1 AND name = ?2 AND not_after_ms < ?3");
  if (!forget.ok()) return forget.status();
  return forget->BindInt(1, static_cast<int64_t>(kind))
      .BindText(2, name)
      .BindInt(3, Milliseconds(now - kKeepEndedCertificates))
      .Run();
}

absl::Status TrustTables::SetAuthorities(IdentityKind kind, std::string_view name,
                                         std::string_view authorities) {
  auto update =
      database_.Prepare("UPDATE members SET authorities = ?3 WHERE kind = ?1 AND name = ?2");
  if (!update.ok()) return update.status();
  return update->BindInt(1, static_cast<int64_t>(kind))
      .BindText(2, name)
      .BindBlob(3, authorities)
      .Run();
}

absl::Status TrustTables::SetSuccessor(std::string_view former, std::string_view serial) {
  auto update = database_.Prepare(
      "UPDATE certificates SET successor = ?2"
      " WHERE serial = ?1 AND successor = '' AND revoked = 0");
  if (!update.ok()) return update.status();
  absl::Status updated = update->BindText(1, former).BindText(2, serial).Run();
  if (!updated.ok()) return updated;
  const absl::StatusOr<int64_t> count = database_.QueryInt("SELECT changes()");
  if (!count.ok()) return count.status();
  return *count == 1 ? absl::OkStatus()
                     : absl::AbortedError("it was renewed, revoked or removed a moment ago");
}

absl::Status TrustTables::SetNewest(const IssuedCertificate& certificate) {
  auto update = database_.Prepare(
      "UPDATE members SET spki = ?3, serial = ?4, not_after_ms = ?5"
      " WHERE kind = ?1 AND name = ?2");
  if (!update.ok()) return update.status();
  return update->BindInt(1, static_cast<int64_t>(certificate.kind))
      .BindText(2, certificate.name)
      .BindBlob(3, certificate.spki_sha256)
      .BindText(4, certificate.serial)
      .BindInt(5, Milliseconds(certificate.not_after))
      .Run();
}

absl::Status TrustTables::Renew(const IssuedCertificate& certificate, std::string_view former,
                                WallTime now) {
  return Transaction([&]() -> absl::Status {
    const absl::StatusOr<std::optional<Member>> member =
        ReadMember(certificate.kind, certificate.name);
    if (!member.ok()) return member.status();
    const std::string_view kind = IdentityKindName(certificate.kind);
    if (!*member) {
      return absl::NotFoundError(fmt::format("there is no {} '{}'", kind, certificate.name));
    }
    if ((*member)->revoked) {
      return absl::PermissionDeniedError(
          fmt::format("the {} '{}' was revoked", kind, certificate.name));
    }
    const bool newest = (*member)->serial == former;
    if (!newest && certificate.kind != IdentityKind::kUser) {
      return absl::AbortedError(
          fmt::format("the {} '{}' got a newer certificate a moment ago", kind, certificate.name));
    }
    absl::Status done = SetSuccessor(former, certificate.serial);
    if (done.ok()) done = ForgetEnded(certificate.kind, certificate.name, now);
    // Of a person's machines the member tells of the one that joined last, while that is good.
    if (done.ok() && (newest || (*member)->not_after <= now)) done = SetNewest(certificate);
    return done.ok() ? PutCertificate(certificate) : done;
  });
}

absl::Status TrustTables::RunFor(const char* sql, IdentityKind kind, std::string_view name) {
  auto statement = database_.Prepare(sql);
  if (!statement.ok()) return statement.status();
  return statement->BindInt(1, static_cast<int64_t>(kind)).BindText(2, name).Run();
}

absl::StatusOr<std::vector<std::string>> TrustTables::RevokeAll(IdentityKind kind,
                                                                std::string_view name,
                                                                bool remove) {
  std::vector<std::string> serials;
  const absl::Status done = Transaction([&]() -> absl::Status {
    const absl::StatusOr<std::optional<Member>> member = ReadMember(kind, name);
    if (!member.ok()) return member.status();
    if (!*member) {
      return absl::NotFoundError(fmt::format("there is no {} '{}'", IdentityKindName(kind), name));
    }
    absl::Status changed =
        RunFor("UPDATE certificates SET revoked = 1 WHERE kind = ?1 AND name = ?2", kind, name);
    if (!changed.ok()) return changed;
    changed = RunFor(remove ? "DELETE FROM members WHERE kind = ?1 AND name = ?2"
                            : "UPDATE members SET revoked = 1 WHERE kind = ?1 AND name = ?2",
                     kind, name);
    if (!changed.ok()) return changed;
    auto select = database_.Prepare(
        "SELECT serial FROM certificates WHERE kind = ?1 AND name = ?2 ORDER BY serial");
    if (!select.ok()) return select.status();
    select->BindInt(1, static_cast<int64_t>(kind)).BindText(2, name);
    auto rows = Rows(std::move(select), [](const SqliteStatement& row) { return Text(row, 0); });
    if (!rows.ok()) return rows.status();
    serials = *std::move(rows);
    return absl::OkStatus();
  });
  if (!done.ok()) return done;
  return serials;
}

absl::StatusOr<std::vector<std::string>> TrustTables::Revoke(IdentityKind kind,
                                                             std::string_view name) {
  return RevokeAll(kind, name, /*remove=*/false);
}

absl::StatusOr<std::vector<std::string>> TrustTables::RemoveMember(IdentityKind kind,
                                                                   std::string_view name) {
  return RevokeAll(kind, name, /*remove=*/true);
}

absl::StatusOr<std::vector<std::string>> TrustTables::RevokedSerials(WallTime now) {
  auto select = database_.Prepare(
      "SELECT serial FROM certificates WHERE revoked = 1 AND not_after_ms > ?1 ORDER BY serial");
  if (!select.ok()) return select.status();
  select->BindInt(1, Milliseconds(now));
  return Rows(std::move(select), [](const SqliteStatement& row) { return Text(row, 0); });
}

}  // namespace muster
