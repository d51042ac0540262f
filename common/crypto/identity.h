// Who a certificate speaks for. It is written as the one URI in the certificate:
//
//   spiffe://<cluster-id>/coordinator
//   spiffe://<cluster-id>/agent/<node-id>
//   spiffe://<cluster-id>/user/<name>
//   spiffe://<cluster-id>/admin/<name>
//
// Every identity has one writing, and nothing else is accepted: no upper case, no escapes, no port,
// no query, no slash at the end. Pure.
#pragma once

#include <absl/status/statusor.h>

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// Values are stored: never change them.
enum class IdentityKind : uint8_t { kCoordinator = 1, kAgent = 2, kUser = 3, kAdmin = 4 };

// "coordinator", "agent", "user" or "admin".
std::string_view IdentityKindName(IdentityKind kind);

struct Identity {
  // 128 bits in the form of a UUID, see NewClusterId.
  std::string cluster_id;
  IdentityKind kind = IdentityKind::kUser;
  // Node id or name of a person; empty for the coordinator.
  std::string name;
  friend auto operator<=>(const Identity&, const Identity&) = default;
};

// Random, lower-case hexadecimal with dashes.
std::string NewClusterId();
bool IsClusterId(std::string_view text);
// `[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?` for agents; for users and admins also . and _ inside.
bool IsIdentityName(IdentityKind kind, std::string_view name);

// INVALID_ARGUMENT says which part is wrong.
absl::StatusOr<Identity> ParseIdentity(std::string_view uri);
// `identity` must be one that ParseIdentity could have made.
std::string ToUri(const Identity& identity);

// The identity of a certificate with these URIs. PERMISSION_DENIED unless there is exactly one and
// it is an identity.
absl::StatusOr<Identity> IdentityOfUris(const std::vector<std::string>& uris);

}  // namespace muster
