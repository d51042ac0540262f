#include "common/trust/server_chain.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "common/base/annotate.h"
#include "common/crypto/verify.h"

namespace muster {

absl::StatusOr<Identity> VerifyCoordinatorChain(const std::vector<Certificate>& chain,
                                                const std::vector<Certificate>& roots,
                                                WallTime now) {
  absl::Status why = absl::PermissionDeniedError("the server has no certificate");
  for (const Certificate& certificate : chain) {
    if (certificate.is_ca() || certificate.SpkiSha256() != chain.front().SpkiSha256()) continue;
    const absl::Status valid = VerifyCertificate(certificate, roots, CertificateUse::kServer, now);
    if (valid.ok()) {
      absl::StatusOr<Identity> identity = IdentityOf(certificate);
      if (identity.ok() && identity->kind != IdentityKind::kCoordinator) {
        return absl::PermissionDeniedError(
            fmt::format("it is of its {}", IdentityKindName(identity->kind)));
      }
      return identity;
    }
    // Of the right authority at the wrong time tells more than of another.
    if (!absl::IsFailedPrecondition(why)) why = valid;
  }
  return why;
}

absl::StatusOr<Identity> VerifyPinnedServer(const std::vector<Certificate>& chain,
                                            std::string_view pin, WallTime now,
                                            std::string_view where) {
  const auto foreign = [&](std::string_view why) {
    return absl::PermissionDeniedError(fmt::format(
        "the certificate at {} is not of the cluster that the token names{} (wrong address, a "
        "token of another cluster or from before its authority was changed, or somebody in "
        "between; nothing of the token was sent)",
        where, why));
  };
  const auto root = std::find_if(chain.begin(), chain.end(), [&](const Certificate& certificate) {
    return certificate.is_ca() && certificate.SpkiSha256() == pin;
  });
  if (root == chain.end()) return foreign("");
  absl::StatusOr<Identity> identity = VerifyCoordinatorChain(chain, {*root}, now);
  if (absl::IsFailedPrecondition(identity.status())) return Annotate(identity.status(), where);
  if (!identity.ok()) return foreign(fmt::format(": {}", MessageOf(identity.status())));
  return identity;
}

}  // namespace muster
