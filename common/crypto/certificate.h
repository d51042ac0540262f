// An X.509 certificate that was parsed, for looking at. Whether it may be trusted is for verify.h.
// A value that shares one immutable OpenSSL object; any thread.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/crypto/identity.h"
#include "common/crypto/private_key.h"

struct x509_st;

namespace muster {

class Certificate {
 public:
  // Takes the object over.
  explicit Certificate(std::shared_ptr<x509_st> certificate)
      : certificate_(std::move(certificate)) {}

  // The one certificate in `pem`; INVALID_ARGUMENT for none, several or a damaged one.
  static absl::StatusOr<Certificate> FromPem(std::string_view pem);
  // Bytes after the certificate are refused.
  static absl::StatusOr<Certificate> FromDer(std::string_view der);
  // One to kMaxBundle certificates.
  static absl::StatusOr<std::vector<Certificate>> ParseBundle(std::string_view pem);
  static constexpr size_t kMaxBundle = 16;

  std::string ToPem() const;
  std::string ToDer() const;
  // Lower-case hexadecimal.
  std::string serial() const;
  WallTime not_before() const;
  WallTime not_after() const;
  // As they are in the certificate: any bytes.
  std::vector<std::string> uri_sans() const;
  std::vector<std::string> dns_sans() const;
  bool is_ca() const;
  // Of its subject; an error when it is no key of P-256.
  absl::StatusOr<PublicKey> public_key() const;
  // Of the subject's key, 32 bytes.
  std::string SpkiSha256() const;
  // SHA-256 of the whole certificate, 32 bytes.
  std::string Fingerprint() const;
  // Whether `key` belongs to it.
  bool Holds(const PrivateKey& key) const;
  x509_st* native() const { return certificate_.get(); }

 private:
  std::shared_ptr<x509_st> certificate_;
};

// One PEM text of several certificates.
std::string ToPem(const std::vector<Certificate>& certificates);

// Who it speaks for. PERMISSION_DENIED when it is a CA or does not name exactly one identity.
absl::StatusOr<Identity> IdentityOf(const Certificate& certificate);

}  // namespace muster
