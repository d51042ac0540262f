#include "coordinator/trust/member_office.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "common/base/annotate.h"
#include "common/crypto/csr.h"
#include "common/crypto/digest.h"
#include "common/crypto/issuer.h"
#include "common/log/log.h"
#include "coordinator/trust/ca_rotation.h"

namespace muster {
namespace {

constexpr size_t kMaxAuthorities = Certificate::kMaxBundle;

absl::Status NoCertificate(const Asker& asker) {
  return absl::NotFoundError(
      fmt::format("the certificate {} is not in the records of the cluster", asker.serial));
}

}  // namespace

absl::Status MemberOffice::Tell(const Asker& asker, std::string decision, std::string detail) {
  const std::string who = ToUri({trust_.Get()->cluster_id, asker.kind, asker.name});
  return audit_.Append({.event = "renew",
                        .decision = std::move(decision),
                        .who = who,
                        .serial = asker.serial,
                        .source = asker.source,
                        .detail = std::move(detail)},
                       clock_.WallNow());
}

absl::StatusOr<bool> MemberOffice::Check(const Asker& asker, std::vector<std::string> authorities) {
  const bool sound = authorities.size() <= kMaxAuthorities &&
                     std::all_of(authorities.begin(), authorities.end(),
                                 [](const std::string& a) { return a.size() == kSha256Bytes; });
  if (!sound) return absl::InvalidArgumentError("authorities: must be up to 16 SHA-256 digests");
  const absl::StatusOr<std::optional<Member>> member = store_.FindMember(asker.kind, asker.name);
  if (!member.ok()) return member.status();
  if (!*member) return NoCertificate(asker);
  const std::string told = AuthoritiesOf(std::move(authorities));
  // A copy of an old state must not speak for the member.
  if (asker.serial == (*member)->serial && told != (*member)->authorities) {
    const absl::Status noted = store_.SetAuthorities(asker.kind, asker.name, told);
    if (!noted.ok()) return noted;
  }
  const std::shared_ptr<const Trust> trust = trust_.Get();
  if (told != AuthoritiesOf(trust->ca_bundle)) return true;
  // A person has one for each machine.
  const auto issued =
      store_.FindCertificate(asker.kind == IdentityKind::kUser ? asker.serial : (*member)->serial);
  if (!issued.ok()) return issued.status();
  if (!*issued) return true;
  const absl::StatusOr<Certificate> newest = Certificate::FromDer((*issued)->der);
  return !newest.ok() || !IsSignedBy(*newest, trust->ca());
}

absl::StatusOr<MemberOffice::Renewed> MemberOffice::Renew(const Asker& asker,
                                                          const std::string& csr) {
  const absl::StatusOr<PublicKey> key = ParseCsr(csr);
  if (!key.ok()) return key.status();
  const WallTime now = clock_.WallNow();
  const absl::StatusOr<std::optional<IssuedCertificate>> presented =
      store_.FindCertificate(asker.serial);
  if (!presented.ok()) return presented.status();
  if (!*presented || (*presented)->kind != asker.kind || (*presented)->name != asker.name) {
    return NoCertificate(asker);
  }
  const absl::StatusOr<RenewalDecision> decision = DecideRenewal(**presented, *key, now, store_);
  if (!decision.ok()) return decision.status();
  if (const auto* refusal = std::get_if<JoinRefusal>(&*decision)) {
    spdlog::warn("renewal refused name={} serial={} reason={}", LogQuoted(asker.name), asker.serial,
                 LogQuoted(refusal->message));
    const absl::Status told =
        Tell(asker, "refused",
             fmt::format("{}: {}", v1::JoinRefused::Cause_Name(refusal->cause), refusal->message));
    if (!told.ok()) spdlog::error("audit failed error={}", LogQuoted(MessageOf(told)));
    return absl::PermissionDeniedError(refusal->message);
  }
  const std::shared_ptr<const Trust> trust = trust_.Get();
  absl::StatusOr<Certificate> certificate = absl::InternalError("no certificate");
  bool repeated = false;
  if (const auto* repetition = std::get_if<JoinRepetition>(&*decision)) {
    repeated = true;
    certificate = Certificate::FromDer(repetition->certificate.der);
  } else {
    certificate = GrantRenewal(*trust, store_, std::get<RenewalGrant>(*decision), now);
  }
  if (!certificate.ok()) return certificate.status();
  // Asked again, the same certificate is handed out.
  const absl::Status told =
      Tell(asker, "allowed",
           fmt::format("{}{}", certificate->serial(), repeated ? ", asked again" : ""));
  if (!told.ok()) {
    spdlog::error("audit failed error={}", LogQuoted(MessageOf(told)));
    return absl::UnavailableError("it could not be written to the audit log (try again)");
  }
  spdlog::info("certificate renewed kind={} name={} serial={} former={}",
               IdentityKindName(asker.kind), asker.name, certificate->serial(), asker.serial);
  return Renewed{*std::move(certificate), trust};
}

absl::StatusOr<Certificate> GrantRenewal(const Trust& trust, TrustStore& store,
                                         const RenewalGrant& grant, WallTime now) {
  CertificateProfile profile{.identity = {trust.cluster_id, grant.kind, grant.name},
                             .client = true,
                             .not_before = now - kBackdate,
                             .not_after = now + trust.LifeOf(grant.kind)};
  if (grant.kind == IdentityKind::kAgent) profile.hosts = {grant.name + ".agent"};
  absl::StatusOr<Certificate> made = Issue(trust.ca(), trust.ca_key, grant.key, profile);
  if (!made.ok()) return made;
  const absl::Status recorded =
      store.Renew(RecordOf(*made, profile.identity, now), grant.serial, now);
  if (!recorded.ok()) return recorded;
  return made;
}

}  // namespace muster
