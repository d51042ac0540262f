#include "coordinator/trust/renewal.h"

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <utility>

#include "common/base/annotate.h"
#include "common/base/utc.h"
#include "common/crypto/certificate.h"
#include "common/crypto/csr.h"
#include "common/crypto/join_token.h"
#include "common/trust/renewal.h"

namespace muster {
namespace {

using v1::JoinRefused;

JoinRefusal UnknownMember() {
  return {JoinRefused::UNKNOWN_MEMBER,
          "the coordinator does not know this certificate: the member was removed, or it is of "
          "another coordinator, or the proof of its key is wrong (join again with a new token)"};
}

// What somebody has to do about a certificate that is not renewed.
std::string WhatToDo(IdentityKind kind, std::string_view name) {
  // A person joins as often as there are tokens; a node once.
  if (kind == IdentityKind::kUser) {
    return fmt::format("join again with a new token of `coordinator user add {}`", name);
  }
  return fmt::format(
      "have an administrator free the name: coordinator revoke {} {} --free-name; then join again "
      "with a new token",
      IdentityKindName(kind), name);
}

struct Newest {
  std::string serial;
  std::string spki_sha256;
};

// Of the member, or, as people have several machines, of the machine that `presented` was given to.
absl::StatusOr<Newest> NewestAfter(const IssuedCertificate& presented, const Member& member,
                                   EnrolmentRecords& records) {
  if (presented.kind != IdentityKind::kUser) return Newest{member.serial, member.spki_sha256};
  IssuedCertificate newest = presented;
  while (!newest.successor.empty()) {
    auto next = records.FindCertificate(newest.successor);
    if (!next.ok()) return next.status();
    // Forgotten: it ended long ago.
    if (!*next) return Newest{newest.successor, ""};
    newest = **std::move(next);
  }
  return Newest{newest.serial, newest.spki_sha256};
}

}  // namespace

absl::StatusOr<RenewalDecision> DecideRenewal(const IssuedCertificate& presented,
                                              const PublicKey& key, WallTime now,
                                              EnrolmentRecords& records) {
  const std::string_view kind = IdentityKindName(presented.kind);
  const absl::StatusOr<std::optional<Member>> found =
      records.FindMember(presented.kind, presented.name);
  if (!found.ok()) return found.status();
  if (presented.revoked || (*found && (*found)->revoked)) {
    return JoinRefusal{JoinRefused::REVOKED,
                       fmt::format("the {} '{}' was revoked (have an administrator free its name, "
                                   "then join again with a new token)",
                                   kind, presented.name)};
  }
  if (!*found) return UnknownMember();
  const Member& member = **found;
  if (presented.kind == IdentityKind::kUser && now >= presented.not_after) {
    return JoinRefusal{
        JoinRefused::TOO_LATE,
        fmt::format("the certificate ended on {}, and that of a user is not renewed "
                    "afterwards ({})",
                    FormatUtc(presented.not_after), WhatToDo(presented.kind, presented.name))};
  }
  if (now >= presented.not_after + kRejoinLimit) {
    return JoinRefusal{
        JoinRefused::TOO_LATE,
        fmt::format("the certificate ended on {}, more than {} days ago ({})",
                    FormatUtc(presented.not_after), kRejoinLimit / std::chrono::hours(24),
                    WhatToDo(presented.kind, presented.name))};
  }
  const absl::StatusOr<Newest> newest = NewestAfter(presented, member, records);
  if (!newest.ok()) return newest.status();
  const std::string spki_sha256 = key.SpkiSha256();
  if (spki_sha256 == presented.spki_sha256) {
    return JoinRefusal{JoinRefused::BAD_REQUEST, "a new certificate is for a new key"};
  }
  if (spki_sha256 == newest->spki_sha256) {
    auto made = records.FindCertificate(newest->serial);
    if (!made.ok()) return made.status();
    if (*made && now < (*made)->not_after) return JoinRepetition{**std::move(made)};
    return RenewalGrant{member.kind, member.name, key, newest->serial};
  }
  if (presented.serial != newest->serial) {
    return JoinRefusal{
        JoinRefused::SUPERSEDED,
        fmt::format(
            "the {} '{}' has a newer certificate, of another key: this one is from a copy "
            "or an old backup (if this is the right machine, {}{})",
            kind, presented.name, WhatToDo(presented.kind, presented.name),
            presented.kind == IdentityKind::kUser
                ? fmt::format("; unless you made the copy, somebody else has your key: have "
                              "an administrator shut it out first, coordinator user remove "
                              "{} --free-name",
                              presented.name)
                : "")};
  }
  return RenewalGrant{member.kind, member.name, key, newest->serial};
}

absl::StatusOr<RenewalDecision> DecideRejoin(const v1::JoinRequest& request, WallTime now,
                                             std::string_view exporter, EnrolmentRecords& records) {
  if (request.protocol() < kJoinProtocol) {
    return JoinRefusal{JoinRefused::VERSION,
                       fmt::format("this program speaks version {} of the join protocol, and the "
                                   "coordinator wants {} or later (install a newer one)",
                                   request.protocol(), kJoinProtocol)};
  }
  const absl::StatusOr<Certificate> certificate =
      Certificate::FromDer(request.member_certificate());
  const absl::StatusOr<PublicKey> holder =
      certificate.ok() ? certificate->public_key() : certificate.status();
  if (!holder.ok()) {
    return JoinRefusal{JoinRefused::BAD_REQUEST, std::string(MessageOf(holder.status()))};
  }
  if (!holder->Verifies(RejoinStatement(exporter, request.csr()), request.member_signature())) {
    return UnknownMember();
  }
  const absl::StatusOr<std::optional<IssuedCertificate>> issued =
      records.FindCertificate(certificate->serial());
  if (!issued.ok()) return issued.status();
  // The very certificate that was given out; who signed it does not matter then.
  if (!*issued || (*issued)->der != request.member_certificate()) return UnknownMember();
  const absl::StatusOr<PublicKey> key = ParseCsr(request.csr());
  if (!key.ok()) {
    return JoinRefusal{JoinRefused::BAD_REQUEST, std::string(MessageOf(key.status()))};
  }
  return DecideRenewal(**issued, *key, now, records);
}

}  // namespace muster
