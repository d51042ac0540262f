// Makes tokens: the text for who will join, and the record that the coordinator keeps of it. The
// text and what is computed from it are in common/crypto/join_token.h.
#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "coordinator/trust/trust_records.h"

namespace muster {

inline constexpr int64_t kMaxTokenUses = 10'000;
inline constexpr std::chrono::hours kMaxTokenLife{24 * 30};

struct TokenWish {
  IdentityKind role = IdentityKind::kAgent;
  std::string bound_name;
  std::string bound_network;
  int64_t uses = 1;
  Duration life = std::chrono::hours(1);
};

struct NewToken {
  // Shown once, never kept.
  std::string text;
  StoredToken stored;
};

// `ca_spki_sha256` becomes the pin. INVALID_ARGUMENT tells all that is wrong with the wish.
absl::StatusOr<NewToken> CreateToken(const TokenWish& wish, std::string_view ca_spki_sha256,
                                     WallTime now);

}  // namespace muster
