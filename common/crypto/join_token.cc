#include "common/crypto/join_token.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "common/crypto/digest.h"
#include "common/crypto/encoding.h"

namespace muster {
namespace {

constexpr std::string_view kVersion = "tk1";
constexpr size_t kIdBytes = 5;
constexpr size_t kIdChars = 8;
constexpr size_t kSecretBytes = 16;
constexpr size_t kChecksumBytes = 4;
constexpr size_t kSecretChars = 32;
constexpr size_t kPinChars = 52;
constexpr std::string_view kBlanks = " \t\r\n";

std::string Checksum(const JoinToken& token) {
  return Sha256(fmt::format("muster token 1 {}", token.id) + token.secret + token.pin)
      .substr(0, kChecksumBytes);
}

absl::Status Wrong(std::string_view what) {
  return absl::InvalidArgumentError(
      fmt::format("{} (copy the whole line that `coordinator token create` printed)", what));
}

absl::StatusOr<std::string> DecodePart(std::string_view part, std::string_view name,
                                       size_t characters) {
  if (part.size() != characters) {
    return Wrong(fmt::format("the token's {} has {} characters, and needs {}", name, part.size(),
                             characters));
  }
  std::optional<std::string> bytes = Base32Decode(part);
  if (!bytes) {
    return Wrong(fmt::format(
        "the token's {} has a character that cannot be there: only a-z and 2-7 can", name));
  }
  return *std::move(bytes);
}

}  // namespace

JoinToken MakeToken(std::string_view pin) {
  return {.id = Base32Encode(RandomBytes(kIdBytes)),
          .secret = RandomBytes(kSecretBytes),
          .pin = std::string(pin)};
}

std::string FormatToken(const JoinToken& token) {
  return fmt::format("{}.{}.{}.{}", kVersion, token.id,
                     Base32Encode(token.secret + Checksum(token)), Base32Encode(token.pin));
}

absl::StatusOr<JoinToken> ParseToken(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  text = text.substr(0, text.find_last_not_of(kBlanks) + 1);
  if (text.empty()) return Wrong("the token is empty");
  std::vector<std::string_view> parts;
  for (std::string_view rest = text;;) {
    const size_t dot = rest.find('.');
    parts.push_back(rest.substr(0, dot));
    if (dot == std::string_view::npos || parts.size() > 4) break;
    rest.remove_prefix(dot + 1);
  }
  if (parts[0] != kVersion) {
    return Wrong("the token does not begin with tk1. : it is none, or of another version");
  }
  if (parts.size() != 4) {
    return Wrong(fmt::format("the token must have 4 parts (tk1.id.secret.pin), and has {}",
                             parts.size() > 4 ? "more" : fmt::format("{}", parts.size())));
  }
  JoinToken token;
  if (auto id = DecodePart(parts[1], "id (2nd part)", kIdChars); !id.ok()) return id.status();
  token.id = std::string(parts[1]);
  absl::StatusOr<std::string> secret = DecodePart(parts[2], "secret (3rd part)", kSecretChars);
  if (!secret.ok()) return secret.status();
  absl::StatusOr<std::string> pin = DecodePart(parts[3], "pin (4th part)", kPinChars);
  if (!pin.ok()) return pin.status();
  token.secret = secret->substr(0, kSecretBytes);
  token.pin = *std::move(pin);
  if (!ConstantTimeEqual(secret->substr(kSecretBytes), Checksum(token))) {
    return Wrong("the token is mistyped: its checksum does not fit its id, secret and pin");
  }
  return token;
}

bool IsTokenId(std::string_view text) {
  return text.size() == kIdChars && Base32Decode(text).has_value();
}

std::string TokenKey(const JoinToken& token) {
  return HkdfSha256(token.secret, "muster join 1 " + token.id);
}

std::string JoinProof(std::string_view token_key, std::string_view exporter, std::string_view csr) {
  return HmacSha256(token_key, std::string(exporter) + std::string(csr));
}

std::string RejoinStatement(std::string_view exporter, std::string_view csr) {
  return fmt::format("muster rejoin 1{}{}", exporter, csr);
}

}  // namespace muster
