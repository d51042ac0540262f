#include "common/crypto/verify.h"

#include <fmt/format.h>
#include <openssl/err.h>

#include <chrono>
#include <memory>

#include "common/base/utc.h"
#include "common/crypto/issuer.h"
#include "common/crypto/openssl.h"

namespace muster {
namespace {

absl::Status StatusOfError(int error, const Certificate& at_fault, WallTime now) {
  switch (error) {
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return absl::FailedPreconditionError(fmt::format(
          "the certificate is not yet valid: this machine's clock says {}, the clock of the "
          "coordinator said {} when it made it, and certificates are valid from an hour before "
          "that, {} (set the clock that is wrong)",
          FormatUtc(now), FormatUtc(IssuedAt(at_fault)), FormatUtc(at_fault.not_before())));
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return absl::FailedPreconditionError(fmt::format(
          "the certificate is no longer valid: this machine's clock says {}, the certificate was "
          "valid until {}",
          FormatUtc(now), FormatUtc(at_fault.not_after())));
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
      return absl::PermissionDeniedError("the certificate is not signed by the CA of the cluster");
    default:
      return absl::PermissionDeniedError(
          fmt::format("the certificate is refused: {}", X509_verify_cert_error_string(error)));
  }
}

}  // namespace

absl::Status VerifyCertificate(const Certificate& certificate,
                               const std::vector<Certificate>& roots, CertificateUse use,
                               std::optional<WallTime> now) {
  const X509StorePtr store(X509_STORE_new());
  const X509StoreContextPtr context(X509_STORE_CTX_new());
  MustHold(store != nullptr && context != nullptr, "X509_STORE_new");
  for (const Certificate& root : roots) X509_STORE_add_cert(store.get(), root.native());
  MustHold(X509_STORE_CTX_init(context.get(), store.get(), certificate.native(), nullptr) == 1,
           "X509_STORE_CTX_init");
  if (use != CertificateUse::kAny) {
    X509_STORE_CTX_set_purpose(context.get(), use == CertificateUse::kClient
                                                  ? X509_PURPOSE_SSL_CLIENT
                                                  : X509_PURPOSE_SSL_SERVER);
  }
  if (now) {
    X509_STORE_CTX_set_time(context.get(), 0, std::chrono::system_clock::to_time_t(*now));
  } else {
    X509_STORE_CTX_set_flags(context.get(), X509_V_FLAG_NO_CHECK_TIME);
  }
  const bool good = X509_verify_cert(context.get()) == 1;
  ERR_clear_error();
  if (good) return absl::OkStatus();
  const int error = X509_STORE_CTX_get_error(context.get());
  X509* current = X509_STORE_CTX_get_current_cert(context.get());
  if (current == nullptr) return StatusOfError(error, certificate, now.value_or(WallTime()));
  X509_up_ref(current);
  return StatusOfError(error, Certificate(std::shared_ptr<X509>(current, X509_free)),
                       now.value_or(WallTime()));
}

}  // namespace muster
