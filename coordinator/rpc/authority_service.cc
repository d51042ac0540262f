#include "coordinator/rpc/authority_service.h"

#include <utility>

#include "common/crypto/encoding.h"
#include "common/crypto/issuer.h"
#include "coordinator/core/proto_time.h"
#include "coordinator/rpc/trust_kinds.h"
#include "coordinator/rpc/unary_call.h"

namespace muster {
namespace {

v1::Authority::Phase ToProto(RotationPhase phase) {
  switch (phase) {
    case RotationPhase::kSteady:
      return v1::Authority::STEADY;
    case RotationPhase::kTrustBoth:
      return v1::Authority::TRUST_BOTH;
    case RotationPhase::kIssueNew:
      return v1::Authority::ISSUE_NEW;
  }
  return v1::Authority::PHASE_UNSPECIFIED;
}

}  // namespace

absl::StatusOr<v1::Authority> AuthorityServiceImpl::Describe() {
  const absl::StatusOr<std::vector<Member>> awaited = keeper_.Awaited();
  if (!awaited.ok()) return awaited.status();
  const std::shared_ptr<const Trust> trust = trust_.Get();
  v1::Authority answer;
  answer.set_phase(ToProto(trust->phase));
  for (const Certificate& ca : trust->ca_bundle) {
    v1::AuthorityCertificate& one = *answer.add_certificates();
    one.set_key_sha256(HexEncode(ca.SpkiSha256()));
    one.set_signs(&ca == &trust->ca());
    *one.mutable_create_time() = ToTimestamp(IssuedAt(ca));
    *one.mutable_end_time() = ToTimestamp(ca.not_after());
  }
  for (const Member& member : *awaited) {
    v1::AwaitedMember& one = *answer.add_awaited();
    one.set_kind(KindOf(member.kind));
    one.set_name(member.name);
    *one.mutable_certificate_end_time() = ToTimestamp(member.not_after);
  }
  answer.set_certificate_life_seconds(trust->certificate_life.count());
  *answer.mutable_coordinator_certificate_end_time() = ToTimestamp(trust->coordinator.not_after());
  return answer;
}

grpc::ServerUnaryReactor* AuthorityServiceImpl::GetAuthority(grpc::CallbackServerContext* call,
                                                             const v1::GetAuthorityRequest* request,
                                                             v1::Authority* response) {
  return ServeUnary(services_, call, "/muster.v1.AuthorityService/GetAuthority", request, response,
                    [this](const v1::GetAuthorityRequest&, const Peer&, auto done) {
                      worker_.Post([this, done = std::move(done)] { done(Describe()); });
                    });
}

grpc::ServerUnaryReactor* AuthorityServiceImpl::RotateAuthority(
    grpc::CallbackServerContext* call, const v1::RotateAuthorityRequest* request,
    v1::Authority* response) {
  return ServeUnary(services_, call, "/muster.v1.AuthorityService/RotateAuthority", request,
                    response,
                    [this, source = call->peer()](const v1::RotateAuthorityRequest&,
                                                  const Peer& peer, auto done) {
                      Actor actor{.name = peer.user, .serial = peer.serial, .source = source};
                      worker_.Post([this, actor = std::move(actor), done = std::move(done)] {
                        const absl::Status begun = keeper_.BeginRotation(actor);
                        done(begun.ok() ? Describe() : absl::StatusOr<v1::Authority>(begun));
                      });
                    });
}

}  // namespace muster
