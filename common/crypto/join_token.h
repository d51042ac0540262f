// The token that lets a machine or a person join a cluster, and what both ends compute from it:
//
//   tk1.<id>.<secret>.<pin>
//
// id: 8 characters that name the token. secret: 128 random bits and a checksum over all parts, so
// that a slip of the pen is told from a wrong token. pin: SHA-256 of the CA's public key
// (SubjectPublicKeyInfo): who joins speaks only to the owner of that key. All base32.
//
// The secret itself is never sent. Both ends derive a key from it, and who joins sends
// HMAC(key, exporter of the TLS connection || certificate request): good for this connection and
// this request only. Pure but for MakeToken; any thread.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace muster {

inline constexpr char kJoinExporterLabel[] = "EXPORTER-muster-join-1";
// Says to both ends that the other means this protocol (ALPN).
inline constexpr char kJoinAlpn[] = "muster-join/1";
// Of the protocol of join.proto; the server refuses lower.
inline constexpr uint32_t kJoinProtocol = 1;

struct JoinToken {
  std::string id;
  // 16 bytes.
  std::string secret;
  // 32 bytes.
  std::string pin;
  friend bool operator==(const JoinToken&, const JoinToken&) = default;
};

// A new random token; `pin` has 32 bytes.
JoinToken MakeToken(std::string_view pin);
std::string FormatToken(const JoinToken& token);
// Blanks and line ends around it are fine. INVALID_ARGUMENT says which part is wrong and what to
// do, and never repeats the secret.
absl::StatusOr<JoinToken> ParseToken(std::string_view text);

bool IsTokenId(std::string_view text);

// What the coordinator keeps instead of the secret. Who has it can join: as sensitive as a key.
std::string TokenKey(const JoinToken& token);
std::string JoinProof(std::string_view token_key, std::string_view exporter, std::string_view csr);
// What a member that comes back signs with the key of its old certificate.
std::string RejoinStatement(std::string_view exporter, std::string_view csr);

}  // namespace muster
