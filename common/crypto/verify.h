// Whether a certificate may be trusted: signed by one of the given CAs, for the use, at the time.
// Revocation and roles are for others. Any thread.
#pragma once

#include <absl/status/status.h>

#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "common/crypto/certificate.h"

namespace muster {

enum class CertificateUse { kAny, kClient, kServer };

// PERMISSION_DENIED: not signed by any of `roots`, or not for that use. FAILED_PRECONDITION: not
// yet or no longer valid at `now`; the text has both times. Without `now` time is not looked at.
absl::Status VerifyCertificate(const Certificate& certificate,
                               const std::vector<Certificate>& roots, CertificateUse use,
                               std::optional<WallTime> now);

}  // namespace muster
