#include "coordinator/trust/join_service.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <utility>
#include <variant>

#include "common/base/annotate.h"
#include "common/crypto/issuer.h"
#include "common/log/log.h"
#include "coordinator/trust/member_office.h"

namespace muster {
namespace {

using v1::JoinRefused;

constexpr char kTryAgain[] =
    "the coordinator cannot do it at the moment, its log says why (try again)";

v1::JoinReply Refused(const JoinRefusal& refusal) {
  v1::JoinReply reply;
  reply.mutable_refused()->set_cause(refusal.cause);
  reply.mutable_refused()->set_message(refusal.message);
  return reply;
}

}  // namespace

JoinService::Outcome JoinService::RefusedOutcome(const JoinRefusal& refusal, std::string object) {
  return {
      Refused(refusal),
      {.decision = "refused",
       .object = std::move(object),
       .detail = fmt::format("{}: {}", JoinRefused::Cause_Name(refusal.cause), refusal.message)}};
}

JoinService::Outcome JoinService::FailedOutcome(const absl::Status& status, std::string object) {
  spdlog::error("join failed error={}", LogQuoted(MessageOf(status)));
  return RefusedOutcome({JoinRefused::UNAVAILABLE, kTryAgain}, std::move(object));
}

std::string JoinService::Answer(std::string_view request, const std::string& address,
                                std::string_view exporter) {
  const WallTime now = clock_.WallNow();
  return Finish(Decide(request, address, exporter, now), address, now);
}

std::string JoinService::AnswerGarbage(const std::string& why, const std::string& address) {
  return Finish({Refused({JoinRefused::BAD_REQUEST, why}), {.decision = "refused", .detail = why}},
                address, clock_.WallNow());
}

void JoinService::Failed(const std::string& why, const std::string& address) {
  const absl::Status told = audit_.Append(
      {.event = "join", .decision = "refused", .source = address, .detail = why}, clock_.WallNow());
  if (!told.ok()) spdlog::error("audit failed error={}", LogQuoted(MessageOf(told)));
}

JoinService::Outcome JoinService::Decide(std::string_view bytes, const std::string& address,
                                         std::string_view exporter, WallTime now) {
  const absl::StatusOr<v1::JoinRequest> request = DecodeJoinRequest(bytes);
  if (!request.ok()) {
    return RefusedOutcome({JoinRefused::BAD_REQUEST, std::string(MessageOf(request.status()))},
                          "token - name -");
  }
  return request->member_certificate().empty() ? DecideToken(*request, address, exporter, now)
                                               : DecideMember(*request, exporter, now);
}

JoinService::Outcome JoinService::DecideToken(const v1::JoinRequest& request,
                                              const std::string& address, std::string_view exporter,
                                              WallTime now) {
  const std::string object = fmt::format("token {} name {}", request.token_id(), request.name());
  absl::StatusOr<JoinDecision> decision = DecideEnrolment(request, address, now, exporter, store_);
  if (!decision.ok()) return FailedOutcome(decision.status(), object);
  if (const auto* refusal = std::get_if<JoinRefusal>(&*decision)) {
    return RefusedOutcome(*refusal, object);
  }
  if (const auto* admission = std::get_if<JoinAdmission>(&*decision)) {
    return Admit(*admission, request, now);
  }
  const auto certificate =
      Certificate::FromDer(std::get<JoinRepetition>(*decision).certificate.der);
  if (!certificate.ok()) return FailedOutcome(certificate.status(), object);
  return Accepted(*trust_.Get(), *certificate,
                  fmt::format("token {}, asked again", request.token_id()));
}

JoinService::Outcome JoinService::DecideMember(const v1::JoinRequest& request,
                                               std::string_view exporter, WallTime now) {
  const auto presented = Certificate::FromDer(request.member_certificate());
  const std::string object =
      fmt::format("certificate {}", presented.ok() ? presented->serial() : "-");
  const std::string event = request.check_only() ? "rejoin-check" : "rejoin";
  const auto named = [&](Outcome outcome) {
    outcome.event.event = event;
    return outcome;
  };
  const absl::StatusOr<RenewalDecision> decision = DecideRejoin(request, now, exporter, store_);
  if (!decision.ok()) return named(FailedOutcome(decision.status(), object));
  if (const auto* refusal = std::get_if<JoinRefusal>(&*decision)) {
    return named(RefusedOutcome(*refusal, object));
  }
  const auto* repetition = std::get_if<JoinRepetition>(&*decision);
  if (request.check_only()) {
    Outcome outcome;
    outcome.reply.mutable_checked()->set_repeated(repetition != nullptr);
    outcome.event = {.event = event, .decision = "allowed", .object = object};
    return outcome;
  }
  const std::shared_ptr<const Trust> trust = trust_.Get();
  absl::StatusOr<Certificate> certificate = absl::InternalError("no certificate");
  if (repetition != nullptr) {
    certificate = Certificate::FromDer(repetition->certificate.der);
  } else {
    const auto& grant = std::get<RenewalGrant>(*decision);
    certificate = GrantRenewal(*trust, store_, grant, now);
  }
  if (!certificate.ok()) return named(FailedOutcome(certificate.status(), object));
  spdlog::info("member came back serial={} {}", certificate->serial(), object);
  return named(
      Accepted(*trust, *certificate,
               fmt::format("with {}{}", object, repetition != nullptr ? ", asked again" : "")));
}

JoinService::Outcome JoinService::Admit(const JoinAdmission& admission,
                                        const v1::JoinRequest& request, WallTime now) {
  const bool agent = admission.kind == IdentityKind::kAgent;
  const std::shared_ptr<const Trust> trust = trust_.Get();
  CertificateProfile profile{.identity = {trust->cluster_id, admission.kind, admission.name},
                             .client = true,
                             .not_before = now - kBackdate,
                             .not_after = now + trust->LifeOf(admission.kind)};
  if (agent) profile.hosts = {admission.name + ".agent"};
  const auto failed = [&](const absl::Status& status) {
    // What the store refuses is for the other end, what fails is for the log.
    const bool spent = absl::IsAborted(status);
    const bool taken = absl::IsAlreadyExists(status);
    if (!spent && !taken) spdlog::error("join failed error={}", LogQuoted(MessageOf(status)));
    const JoinRefusal refusal{spent   ? JoinRefused::USED_UP
                              : taken ? JoinRefused::NAME_TAKEN
                                      : JoinRefused::UNAVAILABLE,
                              spent || taken ? std::string(MessageOf(status)) : kTryAgain};
    return Outcome{Refused(refusal),
                   {.decision = "refused",
                    .object = ToUri(profile.identity),
                    .detail = std::string(MessageOf(status))}};
  };
  const absl::StatusOr<Certificate> made =
      Issue(trust->ca(), trust->ca_key, admission.key, profile);
  if (!made.ok()) return failed(made.status());
  const absl::Status recorded = store_.Enrol({.kind = admission.kind,
                                              .name = admission.name,
                                              .spki_sha256 = made->SpkiSha256(),
                                              .serial = made->serial(),
                                              .not_after = made->not_after(),
                                              .joined_at = now,
                                              .token_id = admission.token_id,
                                              .machine_id = request.machine_id(),
                                              .boot_id = request.boot_id()},
                                             RecordOf(*made, profile.identity, now), now);
  if (!recorded.ok()) return failed(recorded);
  spdlog::info("member joined kind={} name={} serial={}", IdentityKindName(admission.kind),
               admission.name, made->serial());
  return Accepted(*trust, *made, fmt::format("token {}", admission.token_id));
}

JoinService::Outcome JoinService::Accepted(const Trust& trust, const Certificate& certificate,
                                           const std::string& detail) const {
  Outcome outcome;
  v1::JoinAccepted& accepted = *outcome.reply.mutable_accepted();
  accepted.set_certificate_pem(certificate.ToPem());
  accepted.set_ca_bundle_pem(ToPem(trust.ca_bundle));
  for (const std::string& coordinator : policy_.coordinators) {
    accepted.add_coordinators(coordinator);
  }
  accepted.set_cluster_id(trust.cluster_id);
  const absl::StatusOr<Identity> identity = IdentityOf(certificate);
  outcome.event = {.decision = "allowed",
                   .who = identity.ok() ? ToUri(*identity) : "",
                   .serial = certificate.serial(),
                   .detail = detail};
  return outcome;
}

std::string JoinService::Finish(Outcome outcome, const std::string& address, WallTime now) {
  if (outcome.event.event.empty()) outcome.event.event = "join";
  outcome.event.source = address;
  const absl::Status told = audit_.Append(outcome.event, now);
  if (!told.ok()) {
    spdlog::error("audit failed error={}", LogQuoted(MessageOf(told)));
    // Nobody becomes a member unrecorded. Asked again, the same certificate is handed out.
    if (!outcome.reply.has_refused()) {
      outcome.reply = Refused({JoinRefused::UNAVAILABLE, kTryAgain});
    }
  }
  outcome.reply.set_coordinator_time_ms(
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count());
  return outcome.reply.SerializeAsString();
}

}  // namespace muster
