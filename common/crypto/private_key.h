// Keys: ECDSA on P-256, no other. Values that share one immutable OpenSSL object, cheap to copy,
// usable from any thread. A private key is never printed other than by ToPem.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

struct evp_pkey_st;

namespace muster {

class PublicKey {
 public:
  // It must be of P-256: CheckKey comes first for what is from outside.
  explicit PublicKey(std::shared_ptr<evp_pkey_st> key) : key_(std::move(key)) {}

  // SubjectPublicKeyInfo, DER.
  std::string Spki() const;
  // SHA-256 of it, 32 bytes: what pins and members are compared by.
  std::string SpkiSha256() const;
  // Whether `signature` is what the owner of the private key made of `bytes`, see PrivateKey::Sign.
  bool Verifies(std::string_view bytes, std::string_view signature) const;
  evp_pkey_st* native() const { return key_.get(); }

 private:
  std::shared_ptr<evp_pkey_st> key_;
};

class PrivateKey {
 public:
  static PrivateKey Generate();
  // INVALID_ARGUMENT: no key, an encrypted one, or one that is not of P-256.
  static absl::StatusOr<PrivateKey> FromPem(std::string_view pem);

  // ECDSA with SHA-256, DER.
  std::string Sign(std::string_view bytes) const;
  // PKCS #8, not encrypted.
  std::string ToPem() const;
  const PublicKey& public_key() const { return public_key_; }
  std::string SpkiSha256() const { return public_key_.SpkiSha256(); }
  evp_pkey_st* native() const { return public_key_.native(); }

 private:
  explicit PrivateKey(std::shared_ptr<evp_pkey_st> key) : public_key_(std::move(key)) {}

  // Holds the private part too.
  PublicKey public_key_;
};

// INVALID_ARGUMENT unless it is a key of P-256.
absl::Status CheckKey(const evp_pkey_st* key);

}  // namespace muster
