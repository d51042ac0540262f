#include "common/crypto/private_key.h"

#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include "common/crypto/digest.h"
#include "common/crypto/openssl.h"

namespace muster {
namespace {

constexpr size_t kSpkiBytes = 91;

// Instead of a question on the terminal.
int NoPassphrase(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*data*/) { return -1; }

}  // namespace

absl::Status CheckKey(const evp_pkey_st* key) {
  char group[32] = "";
  size_t size = 0;
  if (key == nullptr || EVP_PKEY_is_a(key, "EC") != 1 ||
      EVP_PKEY_get_utf8_string_param(key, OSSL_PKEY_PARAM_GROUP_NAME, group, sizeof group, &size) !=
          1 ||
      std::string_view(group) != SN_X9_62_prime256v1) {
    return absl::InvalidArgumentError("the key is not an ECDSA key on P-256");
  }
  // The curve by its name and the whole point: then a key has one writing and so one digest.
  if (DerOf(key, i2d_PUBKEY).size() != kSpkiBytes) {
    return absl::InvalidArgumentError("the key is not written in the usual form");
  }
  return absl::OkStatus();
}

std::string PublicKey::Spki() const { return DerOf(key_.get(), i2d_PUBKEY); }

std::string PublicKey::SpkiSha256() const { return Sha256(Spki()); }

bool PublicKey::Verifies(std::string_view bytes, std::string_view signature) const {
  const DigestContextPtr context(EVP_MD_CTX_new());
  MustHold(context != nullptr, "EVP_MD_CTX_new");
  const bool good =
      EVP_DigestVerifyInit(context.get(), nullptr, EVP_sha256(), nullptr, native()) == 1 &&
      EVP_DigestVerify(context.get(), Unsigned(signature), signature.size(), Unsigned(bytes),
                       bytes.size()) == 1;
  ERR_clear_error();
  return good;
}

std::string PrivateKey::Sign(std::string_view bytes) const {
  const DigestContextPtr context(EVP_MD_CTX_new());
  size_t size = 0;
  MustHold(context != nullptr &&
               EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, native()) == 1 &&
               EVP_DigestSign(context.get(), nullptr, &size, Unsigned(bytes), bytes.size()) == 1,
           "EVP_DigestSign");
  std::string signature(size, '\0');
  MustHold(EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                          Unsigned(bytes), bytes.size()) == 1,
           "EVP_DigestSign");
  signature.resize(size);
  return signature;
}

PrivateKey PrivateKey::Generate() {
  std::shared_ptr<evp_pkey_st> key(EVP_EC_gen(SN_X9_62_prime256v1), EVP_PKEY_free);
  MustHold(key != nullptr, "EVP_EC_gen");
  return PrivateKey(std::move(key));
}

absl::StatusOr<PrivateKey> PrivateKey::FromPem(std::string_view pem) {
  const BioPtr bio = ReadingBio(pem);
  std::shared_ptr<evp_pkey_st> key(
      PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, nullptr), EVP_PKEY_free);
  if (key == nullptr) {
    return OpensslStatus(absl::StatusCode::kInvalidArgument,
                         "no private key in PEM form without a passphrase");
  }
  if (absl::Status status = CheckKey(key.get()); !status.ok()) return status;
  const PkeyContextPtr context(EVP_PKEY_CTX_new_from_pkey(nullptr, key.get(), nullptr));
  if (context == nullptr || EVP_PKEY_pairwise_check(context.get()) != 1) {
    return OpensslStatus(absl::StatusCode::kInvalidArgument, "the private key is damaged");
  }
  return PrivateKey(std::move(key));
}

std::string PrivateKey::ToPem() const {
  const BioPtr bio(BIO_new(BIO_s_secmem()));
  MustHold(bio != nullptr && PEM_write_bio_PKCS8PrivateKey(bio.get(), native(), nullptr, nullptr, 0,
                                                           nullptr, nullptr) == 1,
           "PEM_write_bio_PKCS8PrivateKey");
  return BytesOf(bio.get());
}

}  // namespace muster
