// Digests, keyed digests, randomness and comparison in constant time. Bytes are std::string. Pure
// but for RandomBytes; any thread. A failure of OpenSSL itself ends the program.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster {

inline constexpr size_t kSha256Bytes = 32;

std::string Sha256(std::string_view bytes);
std::string HmacSha256(std::string_view key, std::string_view bytes);
// RFC 5869 with an empty salt, 32 bytes.
std::string HkdfSha256(std::string_view secret, std::string_view info);
// From the generator for keys and secrets.
std::string RandomBytes(size_t count);
// Takes time that depends on the sizes only.
bool ConstantTimeEqual(std::string_view a, std::string_view b);

}  // namespace muster
