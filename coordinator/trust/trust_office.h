// What admins do about trust: tokens, members, revocation. Each act is in the audit log, on the
// disk, before it is done: one that cannot be told is not done. Thread-safe; blocks on the disk.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/audit/audit_log.h"
#include "common/base/clock.h"
#include "coordinator/trust/token.h"
#include "coordinator/trust/trust_records.h"
#include "coordinator/trust/trust_store.h"

namespace muster {

// Who acts, as the audit log names it.
struct Actor {
  std::string name;
  // Of the certificate; empty for those of this machine.
  std::string serial;
  std::string source;
};

class TrustOffice {
 public:
  // All outlive it. `pin`: of new tokens; SHA-256 of the public key of the CA.
  TrustOffice(TrustStore& store, AuditLog& audit, const Clock& clock,
              std::function<std::string()> pin);

  absl::StatusOr<NewToken> MakeToken(const TokenWish& wish, const Actor& actor);
  absl::StatusOr<std::vector<StoredToken>> Tokens() { return store_.ListTokens(); }
  absl::Status DeleteToken(const std::string& id, const Actor& actor);
  absl::StatusOr<std::vector<Member>> Members() { return store_.ListMembers(); }
  // Returns the serial numbers that are not good any more. `free_name`: another one may have it.
  absl::StatusOr<std::vector<std::string>> Revoke(IdentityKind kind, const std::string& name,
                                                  bool free_name, const Actor& actor);

 private:
  absl::Status Tell(std::string_view event, std::string object, std::string detail,
                    const Actor& actor);

  TrustStore& store_;
  AuditLog& audit_;
  const Clock& clock_;
  const std::function<std::string()> pin_;
};

}  // namespace muster
