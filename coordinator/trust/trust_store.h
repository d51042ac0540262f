// Tokens, members and certificates in an SQLite database of their own, trust.db. It holds keys of
// tokens: mode 0600, in the trust directory. Thread-safe; several processes may use one database.
// Blocks on the disk: not for the loop thread.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "coordinator/trust/enrolment.h"
#include "coordinator/trust/trust_records.h"
#include "coordinator/trust/trust_tables.h"

namespace muster {

class TrustStore final : public EnrolmentRecords {
 public:
  // Makes the database when it is missing.
  static absl::StatusOr<std::unique_ptr<TrustStore>> Open(const std::string& path);

  // Also forgets tokens that ended more than a week before this one was made.
  absl::Status AddToken(const StoredToken& token);
  // NOT_FOUND: there is none.
  absl::Status RemoveToken(std::string_view id);
  // By time of making.
  absl::StatusOr<std::vector<StoredToken>> ListTokens();
  absl::StatusOr<std::optional<StoredToken>> FindToken(std::string_view id) override;

  // By kind, then name.
  absl::StatusOr<std::vector<Member>> ListMembers();
  absl::StatusOr<std::optional<Member>> FindMember(IdentityKind kind,
                                                   std::string_view name) override;
  absl::StatusOr<std::optional<IssuedCertificate>> FindCertificate(
      std::string_view serial) override;

  // One transaction: spends a use of the member's token and records member and certificate.
  // ABORTED: the token is gone, over or spent. ALREADY_EXISTS: the name belongs to a
  // member with another key, or that was revoked.
  absl::Status Enrol(const Member& member, const IssuedCertificate& certificate, WallTime now);
  // The same without a token. ALREADY_EXISTS: as above.
  absl::Status AddMember(const Member& member, const IssuedCertificate& certificate);
  // A member has a new certificate. `former`: the serial number of the newest that it had, or that
  // a person had on the machine that asks; ABORTED when it was another. NOT_FOUND: no such member.
  // PERMISSION_DENIED: it was revoked. Also forgets its certificates that ended two months before
  // `now`.
  absl::Status Renew(const IssuedCertificate& certificate, std::string_view former, WallTime now);
  // Which CAs the member trusts, as it told.
  absl::Status SetAuthorities(IdentityKind kind, std::string_view name,
                              std::string_view authorities);
  // Makes all certificates of a member bad for good and returns their serial numbers. The name
  // stays taken. NOT_FOUND: no such member.
  absl::StatusOr<std::vector<std::string>> Revoke(IdentityKind kind, std::string_view name);
  // The same, and the name is free again.
  absl::StatusOr<std::vector<std::string>> RemoveMember(IdentityKind kind, std::string_view name);
  // Serial numbers of revoked certificates that are not over at `now`.
  absl::StatusOr<std::vector<std::string>> RevokedSerials(WallTime now);

 private:
  explicit TrustStore(TrustTables tables) : tables_(std::move(tables)) {}

  Mutex mutex_;
  TrustTables tables_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster
