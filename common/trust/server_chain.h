// Whether a server that presented a chain is the coordinator of the cluster that is wanted. While
// the authority of a cluster is changed, the coordinator has a certificate of each for the same
// key, and presents both. Pure.
#pragma once

#include <absl/status/statusor.h>

#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/crypto/certificate.h"
#include "common/crypto/identity.h"

namespace muster {

// `chain` begins with the certificate whose key the server has proven to own. Returns the identity
// of one of its certificates for that key that leads to one of `roots`. PERMISSION_DENIED: none
// does, or it is no coordinator's. FAILED_PRECONDITION: one does, but not at `now`.
absl::StatusOr<Identity> VerifyCoordinatorChain(const std::vector<Certificate>& chain,
                                                const std::vector<Certificate>& roots,
                                                WallTime now);

// The same for a client that knows of the CA only the SHA-256 of its public key; `where` is for the
// texts.
absl::StatusOr<Identity> VerifyPinnedServer(const std::vector<Certificate>& chain,
                                            std::string_view pin, WallTime now,
                                            std::string_view where);

}  // namespace muster
