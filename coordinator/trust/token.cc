#include "coordinator/trust/token.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "common/crypto/join_token.h"
#include "coordinator/trust/ip_address.h"

namespace muster {
namespace {

std::vector<std::string> ProblemsOf(const TokenWish& wish) {
  std::vector<std::string> problems;
  const bool user = wish.role == IdentityKind::kUser;
  if (!user && wish.role != IdentityKind::kAgent) {
    problems.push_back(fmt::format("a token cannot make a member of kind {}, only agent and user",
                                   IdentityKindName(wish.role)));
  }
  if (user && wish.bound_name.empty()) {
    problems.emplace_back("a token for a user needs the user's name");
  }
  if (!wish.bound_name.empty() && !IsIdentityName(wish.role, wish.bound_name)) {
    problems.push_back(
        fmt::format("'{}' is no valid name (1 to 63 of a-z, 0-9 and - inside)", wish.bound_name));
  }
  // Nodes take a number for the user who has it.
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  if (user && !wish.bound_name.empty() &&
      std::all_of(wish.bound_name.begin(), wish.bound_name.end(), digit)) {
    problems.push_back(fmt::format("'{}' is a number, not a user's name", wish.bound_name));
  }
  if (!wish.bound_network.empty() && !ParseIpNetwork(wish.bound_network)) {
    problems.push_back(fmt::format(
        "'{}' is no network (like 10.0.0.0/8, no bits set after the prefix)", wish.bound_network));
  }
  if (wish.uses < 1 || wish.uses > kMaxTokenUses) {
    problems.push_back(
        fmt::format("a token can have 1 to {} uses, not {}", kMaxTokenUses, wish.uses));
  }
  if (wish.life <= Duration::zero() || wish.life > kMaxTokenLife) {
    problems.push_back(
        fmt::format("a token can live for up to {} days", kMaxTokenLife / std::chrono::hours(24)));
  }
  return problems;
}

}  // namespace

absl::StatusOr<NewToken> CreateToken(const TokenWish& wish, std::string_view ca_spki_sha256,
                                     WallTime now) {
  const std::vector<std::string> problems = ProblemsOf(wish);
  if (!problems.empty()) {
    return absl::InvalidArgumentError(fmt::format("{}", fmt::join(problems, "; ")));
  }
  const JoinToken token = MakeToken(ca_spki_sha256);
  return NewToken{
      .text = FormatToken(token),
      .stored = {.id = token.id,
                 .key = TokenKey(token),
                 .role = wish.role,
                 .bound_name = wish.bound_name,
                 .bound_network = wish.bound_network,
                 .uses_left = wish.uses,
                 .created_at = now,
                 .expires_at = now + std::chrono::duration_cast<WallTime::duration>(wish.life)}};
}

}  // namespace muster
