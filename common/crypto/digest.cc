#include "common/crypto/digest.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include "common/crypto/openssl.h"

namespace muster {
namespace {

unsigned char* Writable(std::string& bytes) {
  return reinterpret_cast<unsigned char*>(bytes.data());
}

}  // namespace

std::string Sha256(std::string_view bytes) {
  std::string digest(kSha256Bytes, '\0');
  MustHold(SHA256(Unsigned(bytes), bytes.size(), Writable(digest)) != nullptr, "SHA256");
  return digest;
}

std::string HmacSha256(std::string_view key, std::string_view bytes) {
  std::string mac(kSha256Bytes, '\0');
  unsigned int size = 0;
  // A null pointer would stand for the key of the call before.
  const char* key_data = key.empty() ? "" : key.data();
  const auto* result = HMAC(EVP_sha256(), key_data, static_cast<int>(key.size()), Unsigned(bytes),
                            bytes.size(), Writable(mac), &size);
  MustHold(result != nullptr && size == kSha256Bytes, "HMAC");
  return mac;
}

std::string HkdfSha256(std::string_view secret, std::string_view info) {
  // One block of RFC 5869: extract with a salt of zeros, expand to the size of the digest.
  const std::string key = HmacSha256(std::string(kSha256Bytes, '\0'), secret);
  return HmacSha256(key, std::string(info) + '\x01');
}

std::string RandomBytes(size_t count) {
  std::string bytes(count, '\0');
  MustHold(RAND_priv_bytes(Writable(bytes), static_cast<int>(count)) == 1, "RAND_priv_bytes");
  return bytes;
}

bool ConstantTimeEqual(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace muster
