// Certificate signing requests (PKCS #10, DER): here a proof that somebody holds a key, nothing
// more. Names and extensions in them are ignored. Pure.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

#include "common/crypto/private_key.h"

namespace muster {

inline constexpr size_t kMaxCsrBytes = 4096;

std::string MakeCsr(const PrivateKey& key);
// The key that signed it. INVALID_ARGUMENT: no request, too long, bytes after it, not signed by the
// key in it, not a key of P-256.
absl::StatusOr<PublicKey> ParseCsr(std::string_view der);

}  // namespace muster
