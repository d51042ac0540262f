#include "common/crypto/certificate.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include "common/crypto/digest.h"
#include "common/crypto/encoding.h"
#include "common/crypto/openssl.h"

namespace muster {
namespace {

int NoPassphrase(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*data*/) { return -1; }

std::vector<std::string> NamesOf(const X509* certificate, int type) {
  std::vector<std::string> found;
  const GeneralNamesPtr names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != type) continue;
    // Both kinds are the same member of the union's type. With its size: it may contain zeros.
    const ASN1_IA5STRING* text = name->d.ia5;
    found.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                       static_cast<size_t>(ASN1_STRING_length(text)));
  }
  return found;
}

}  // namespace

absl::StatusOr<std::vector<Certificate>> Certificate::ParseBundle(std::string_view pem) {
  const BioPtr bio = ReadingBio(pem);
  std::vector<Certificate> found;
  ERR_clear_error();
  while (X509* next = PEM_read_bio_X509(bio.get(), nullptr, NoPassphrase, nullptr)) {
    found.emplace_back(std::shared_ptr<X509>(next, X509_free));
    if (found.size() > kMaxBundle) {
      return absl::InvalidArgumentError(fmt::format("more than {} certificates", kMaxBundle));
    }
  }
  if (found.empty() || ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE) {
    return OpensslStatus(absl::StatusCode::kInvalidArgument, "no certificates in PEM form");
  }
  ERR_clear_error();
  return found;
}

absl::StatusOr<Certificate> Certificate::FromPem(std::string_view pem) {
  absl::StatusOr<std::vector<Certificate>> all = ParseBundle(pem);
  if (!all.ok()) return all.status();
  if (all->size() != 1) {
    return absl::InvalidArgumentError(
        fmt::format("expected one certificate, found {}", all->size()));
  }
  return all->front();
}

absl::StatusOr<Certificate> Certificate::FromDer(std::string_view der) {
  const unsigned char* at = Unsigned(der);
  std::shared_ptr<X509> certificate(d2i_X509(nullptr, &at, static_cast<long>(der.size())),
                                    X509_free);
  if (certificate == nullptr) {
    return OpensslStatus(absl::StatusCode::kInvalidArgument, "no certificate in DER form");
  }
  if (at != Unsigned(der) + der.size()) {
    return absl::InvalidArgumentError("bytes after the certificate");
  }
  return Certificate(std::move(certificate));
}

std::string Certificate::ToPem() const {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  MustHold(bio != nullptr && PEM_write_bio_X509(bio.get(), native()) == 1, "PEM_write_bio_X509");
  return BytesOf(bio.get());
}

std::string Certificate::ToDer() const { return DerOf(native(), i2d_X509); }

std::string Certificate::serial() const {
  const BignumPtr number(ASN1_INTEGER_to_BN(X509_get0_serialNumber(native()), nullptr));
  MustHold(number != nullptr, "ASN1_INTEGER_to_BN");
  std::string bytes(static_cast<size_t>(BN_num_bytes(number.get())), '\0');
  BN_bn2bin(number.get(), reinterpret_cast<unsigned char*>(bytes.data()));
  return HexEncode(bytes);
}

WallTime Certificate::not_before() const { return WallTimeOf(X509_get0_notBefore(native())); }
WallTime Certificate::not_after() const { return WallTimeOf(X509_get0_notAfter(native())); }

std::vector<std::string> Certificate::uri_sans() const { return NamesOf(native(), GEN_URI); }
std::vector<std::string> Certificate::dns_sans() const { return NamesOf(native(), GEN_DNS); }

bool Certificate::is_ca() const { return X509_check_ca(native()) == 1; }

absl::StatusOr<PublicKey> Certificate::public_key() const {
  std::shared_ptr<evp_pkey_st> key(X509_get_pubkey(native()), EVP_PKEY_free);
  if (absl::Status status = CheckKey(key.get()); !status.ok()) {
    ERR_clear_error();
    return status;
  }
  return PublicKey(std::move(key));
}

std::string Certificate::SpkiSha256() const {
  return Sha256(DerOf(X509_get_X509_PUBKEY(native()), i2d_X509_PUBKEY));
}

std::string Certificate::Fingerprint() const { return Sha256(ToDer()); }

bool Certificate::Holds(const PrivateKey& key) const { return SpkiSha256() == key.SpkiSha256(); }

std::string ToPem(const std::vector<Certificate>& certificates) {
  std::string pem;
  for (const Certificate& certificate : certificates) pem += certificate.ToPem();
  return pem;
}

absl::StatusOr<Identity> IdentityOf(const Certificate& certificate) {
  if (certificate.is_ca()) {
    return absl::PermissionDeniedError("a CA certificate speaks for nobody");
  }
  return IdentityOfUris(certificate.uri_sans());
}

}  // namespace muster
