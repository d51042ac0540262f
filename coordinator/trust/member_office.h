// What members ask about their own certificates. What is granted is in the store and in the audit
// log, on the disk, before it is handed out. Thread-safe; blocks on the disk.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <vector>

#include "common/audit/audit_log.h"
#include "common/base/clock.h"
#include "common/crypto/certificate.h"
#include "common/crypto/identity.h"
#include "coordinator/trust/live_trust.h"
#include "coordinator/trust/renewal.h"
#include "coordinator/trust/trust_store.h"

namespace muster {

// Who asks.
struct Asker {
  IdentityKind kind = IdentityKind::kAgent;
  std::string name;
  // Of the certificate of the connection.
  std::string serial;
  std::string source;
};

class MemberOffice {
 public:
  // All outlive it.
  MemberOffice(const LiveTrust& trust, TrustStore& store, AuditLog& audit, const Clock& clock)
      : trust_(trust), store_(store), audit_(audit), clock_(clock) {}

  // Takes note of the CAs that the member trusts; whether it should renew now.
  absl::StatusOr<bool> Check(const Asker& asker, std::vector<std::string> authorities);

  struct Renewed {
    Certificate certificate;
    std::shared_ptr<const Trust> trust;
  };
  // PERMISSION_DENIED: it gets none, the text says why. INVALID_ARGUMENT: no good request.
  // NOT_FOUND: the certificate of the connection is not on record.
  absl::StatusOr<Renewed> Renew(const Asker& asker, const std::string& csr);

 private:
  absl::Status Tell(const Asker& asker, std::string decision, std::string detail);

  const LiveTrust& trust_;
  TrustStore& store_;
  AuditLog& audit_;
  const Clock& clock_;
};

// Makes and records the certificate. ABORTED: the member has a newer one since; ask again.
// NOT_FOUND, PERMISSION_DENIED: it was removed, revoked since.
absl::StatusOr<Certificate> GrantRenewal(const Trust& trust, TrustStore& store,
                                         const RenewalGrant& grant, WallTime now);

}  // namespace muster
