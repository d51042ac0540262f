#include "coordinator/trust/trust_office.h"

#include <fmt/format.h>

#include <utility>

#include "common/base/annotate.h"

namespace muster {

TrustOffice::TrustOffice(TrustStore& store, AuditLog& audit, const Clock& clock,
                         std::function<std::string()> pin)
    : store_(store), audit_(audit), clock_(clock), pin_(std::move(pin)) {}

absl::Status TrustOffice::Tell(std::string_view event, std::string object, std::string detail,
                               const Actor& actor) {
  const absl::Status status = audit_.Append({.event = std::string(event),
                                             .decision = "allowed",
                                             .who = actor.name,
                                             .serial = actor.serial,
                                             .object = std::move(object),
                                             .source = actor.source,
                                             .detail = std::move(detail)},
                                            clock_.WallNow());
  if (status.ok()) return status;
  return absl::UnavailableError(fmt::format(
      "nothing was done, because it could not be written to the audit log: {}", MessageOf(status)));
}

absl::StatusOr<NewToken> TrustOffice::MakeToken(const TokenWish& wish, const Actor& actor) {
  absl::StatusOr<NewToken> token = CreateToken(wish, pin_(), clock_.WallNow());
  if (!token.ok()) return token;
  const StoredToken& stored = token->stored;
  absl::Status status =
      Tell("token-create", stored.id,
           fmt::format("for {} {} from {}, {} uses", IdentityKindName(stored.role),
                       stored.bound_name.empty() ? "of any name" : stored.bound_name,
                       stored.bound_network.empty() ? "anywhere" : stored.bound_network,
                       stored.uses_left),
           actor);
  if (status.ok()) status = store_.AddToken(stored);
  if (!status.ok()) return status;
  return token;
}

absl::Status TrustOffice::DeleteToken(const std::string& id, const Actor& actor) {
  const absl::StatusOr<std::optional<StoredToken>> token = store_.FindToken(id);
  if (!token.ok()) return token.status();
  if (!token->has_value()) return absl::NotFoundError(fmt::format("there is no token {}", id));
  const absl::Status status = Tell("token-delete", id, "", actor);
  return status.ok() ? store_.RemoveToken(id) : status;
}

absl::StatusOr<std::vector<std::string>> TrustOffice::Revoke(IdentityKind kind,
                                                             const std::string& name,
                                                             bool free_name, const Actor& actor) {
  const absl::StatusOr<std::optional<Member>> member = store_.FindMember(kind, name);
  if (!member.ok()) return member.status();
  if (!member->has_value()) {
    return absl::NotFoundError(fmt::format("there is no {} {}", IdentityKindName(kind), name));
  }
  const absl::Status status = Tell("revoke", fmt::format("{} {}", IdentityKindName(kind), name),
                                   free_name ? "and the name is free" : "", actor);
  if (!status.ok()) return status;
  return free_name ? store_.RemoveMember(kind, name) : store_.Revoke(kind, name);
}

}  // namespace muster
