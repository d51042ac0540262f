#include "common/crypto/csr.h"

#include <memory>
#include <utility>

#include "common/crypto/openssl.h"

namespace muster {

std::string MakeCsr(const PrivateKey& key) {
  const X509ReqPtr request(X509_REQ_new());
  MustHold(request != nullptr && X509_REQ_set_version(request.get(), X509_REQ_VERSION_1) == 1 &&
               X509_REQ_set_pubkey(request.get(), key.native()) == 1 &&
               X509_REQ_sign(request.get(), key.native(), EVP_sha256()) > 0,
           "X509_REQ_sign");
  return DerOf(request.get(), i2d_X509_REQ);
}

absl::StatusOr<PublicKey> ParseCsr(std::string_view der) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  if (der.size() > kMaxCsrBytes) {
    return absl::InvalidArgumentError("the certificate request is too long");
  }
  const unsigned char* at = Unsigned(der);
  const X509ReqPtr request(d2i_X509_REQ(nullptr, &at, static_cast<long>(der.size())));
  if (request == nullptr) return OpensslStatus(kInvalid, "no certificate request");
  if (at != Unsigned(der) + der.size()) {
    return absl::InvalidArgumentError("bytes after the certificate request");
  }
  std::shared_ptr<evp_pkey_st> key(X509_REQ_get_pubkey(request.get()), EVP_PKEY_free);
  if (key == nullptr) return OpensslStatus(kInvalid, "the certificate request has no key");
  if (absl::Status status = CheckKey(key.get()); !status.ok()) return status;
  if (X509_REQ_verify(request.get(), key.get()) != 1) {
    return OpensslStatus(kInvalid, "the certificate request is not signed by its key");
  }
  return PublicKey(std::move(key));
}

}  // namespace muster
