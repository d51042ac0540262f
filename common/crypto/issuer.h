// Makes certificates: the CA's own, and those that the CA signs. Nothing in them comes from a
// request but the public key. Serial numbers are 128 random bits. Any thread.
#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/crypto/certificate.h"
#include "common/crypto/identity.h"
#include "common/crypto/private_key.h"

namespace muster {

// How far certificates are back-dated, for clocks that are behind.
inline constexpr std::chrono::hours kBackdate{1};

struct CertificateProfile {
  Identity identity;
  // Host names and numeric addresses under which it serves.
  std::vector<std::string> hosts;
  bool client = false;
  bool server = false;
  WallTime not_before;
  // Not after the CA's: it is cut to that.
  WallTime not_after;
};

// A self-signed CA that may sign leaves only.
absl::StatusOr<Certificate> MakeCa(const PrivateKey& key, const std::string& cluster_id,
                                   WallTime not_before, WallTime not_after);

// INVALID_ARGUMENT: the profile is not valid. FAILED_PRECONDITION: `ca` is no CA, is over, or
// `ca_key` is not its key.
absl::StatusOr<Certificate> Issue(const Certificate& ca, const PrivateKey& ca_key,
                                  const PublicKey& key, const CertificateProfile& profile);

// When a certificate was made, as far as its own dates tell: kBackdate after it begins.
WallTime IssuedAt(const Certificate& certificate);
// Whether `ca` signed it, whatever the time.
bool IsSignedBy(const Certificate& certificate, const Certificate& ca);

// Whether it can stand in a certificate: a host name of letters, digits, dashes and dots, or a
// numeric address.
bool IsCertificateHost(const std::string& host);

}  // namespace muster
