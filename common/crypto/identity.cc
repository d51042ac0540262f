#include "common/crypto/identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "common/base/annotate.h"
#include "common/crypto/digest.h"
#include "common/crypto/encoding.h"

namespace muster {
namespace {

constexpr std::string_view kScheme = "spiffe://";
constexpr size_t kMaxNameBytes = 63;
constexpr size_t kClusterIdBytes = 36;

bool IsDash(size_t position) {
  return position == 8 || position == 13 || position == 18 || position == 23;
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLowerAlnum(char c) { return IsDigit(c) || (c >= 'a' && c <= 'z'); }
bool IsLowerHex(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f'); }

std::optional<IdentityKind> KindOf(std::string_view name) {
  for (const IdentityKind kind : {IdentityKind::kCoordinator, IdentityKind::kAgent,
                                  IdentityKind::kUser, IdentityKind::kAdmin}) {
    if (IdentityKindName(kind) == name) return kind;
  }
  return std::nullopt;
}

}  // namespace

std::string_view IdentityKindName(IdentityKind kind) {
  switch (kind) {
    case IdentityKind::kCoordinator:
      return "coordinator";
    case IdentityKind::kAgent:
      return "agent";
    case IdentityKind::kUser:
      return "user";
    case IdentityKind::kAdmin:
      return "admin";
  }
  return "unknown";
}

std::string NewClusterId() {
  const std::string hex = HexEncode(RandomBytes(16));
  return fmt::format("{}-{}-{}-{}-{}", hex.substr(0, 8), hex.substr(8, 4), hex.substr(12, 4),
                     hex.substr(16, 4), hex.substr(20));
}

bool IsClusterId(std::string_view text) {
  if (text.size() != kClusterIdBytes) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (IsDash(i) ? text[i] != '-' : !IsLowerHex(text[i])) return false;
  }
  return true;
}

bool IsIdentityName(IdentityKind kind, std::string_view name) {
  if (kind == IdentityKind::kCoordinator) return name.empty();
  const std::string_view inside = kind == IdentityKind::kAgent ? "-" : "-._";
  return !name.empty() && name.size() <= kMaxNameBytes && IsLowerAlnum(name.front()) &&
         IsLowerAlnum(name.back()) && std::all_of(name.begin(), name.end(), [&](char c) {
           return IsLowerAlnum(c) || inside.find(c) != std::string_view::npos;
         });
}

absl::StatusOr<Identity> ParseIdentity(std::string_view uri) {
  if (!uri.starts_with(kScheme)) {
    return absl::InvalidArgumentError("the identity does not begin with spiffe://");
  }
  uri.remove_prefix(kScheme.size());
  const size_t slash = uri.find('/');
  const std::string_view cluster = uri.substr(0, slash);
  if (!IsClusterId(cluster)) {
    return absl::InvalidArgumentError("the identity names no cluster id");
  }
  if (slash == std::string_view::npos) {
    return absl::InvalidArgumentError("the identity names a cluster and nobody in it");
  }
  const std::string_view path = uri.substr(slash + 1);
  const size_t second = path.find('/');
  const std::optional<IdentityKind> kind = KindOf(path.substr(0, second));
  if (!kind) {
    return absl::InvalidArgumentError("the identity is none of coordinator, agent, user and admin");
  }
  const bool named = second != std::string_view::npos;
  const std::string_view name = named ? path.substr(second + 1) : std::string_view();
  if (named == (*kind == IdentityKind::kCoordinator) || !IsIdentityName(*kind, name)) {
    return absl::InvalidArgumentError(fmt::format(
        "the identity is of kind {} and has no valid name for it", IdentityKindName(*kind)));
  }
  return Identity{std::string(cluster), *kind, std::string(name)};
}

std::string ToUri(const Identity& identity) {
  std::string uri =
      fmt::format("{}{}/{}", kScheme, identity.cluster_id, IdentityKindName(identity.kind));
  if (identity.kind != IdentityKind::kCoordinator) uri += "/" + identity.name;
  return uri;
}

absl::StatusOr<Identity> IdentityOfUris(const std::vector<std::string>& uris) {
  if (uris.size() != 1) {
    return absl::PermissionDeniedError(fmt::format(
        "the certificate must name exactly one identity (URI), and names {}", uris.size()));
  }
  absl::StatusOr<Identity> identity = ParseIdentity(uris.front());
  if (!identity.ok()) return absl::PermissionDeniedError(identity.status().message());
  return identity;
}

}  // namespace muster
