#include "coordinator/rpc/member_service.h"

#include <optional>
#include <utility>

#include "coordinator/core/proto_time.h"
#include "coordinator/rpc/unary_call.h"

namespace muster {
namespace {

// Whose certificate the connection was made with. Peers of this machine come without one, and the
// coordinator itself looks after those of admins.
std::optional<Asker> AskerOf(const Peer& peer, const std::string& source) {
  if (peer.serial.empty()) return std::nullopt;
  if (peer.role == Role::kAgent && peer.node.has_value()) {
    return Asker{IdentityKind::kAgent, peer.node->value(), peer.serial, source};
  }
  if (peer.role == Role::kSubmitter) {
    return Asker{IdentityKind::kUser, peer.user, peer.serial, source};
  }
  return std::nullopt;
}

}  // namespace

MemberServiceImpl::MemberServiceImpl(const ServiceContext& services, MemberOffice& office,
                                     const Clock& clock, std::vector<std::string> addresses)
    : services_(services), office_(office), clock_(clock), addresses_(std::move(addresses)) {}

template <typename Request, typename Response, typename Act>
grpc::ServerUnaryReactor* MemberServiceImpl::Serve(grpc::CallbackServerContext* call,
                                                   std::string_view method, const Request* request,
                                                   Response* response, Act act) {
  return ServeUnary(services_, call, method, request, response,
                    [this, act = std::move(act), source = call->peer()](
                        Request asked, const Peer& peer, auto done) {
                      std::optional<Asker> asker = AskerOf(peer, source);
                      if (!asker.has_value()) {
                        return done(absl::FailedPreconditionError(
                            "only nodes and users of the cluster have a certificate to ask about, "
                            "over mutual TLS"));
                      }
                      worker_.Post([act, asked = std::move(asked), asker = *std::move(asker),
                                    done = std::move(done)] { done(act(asked, asker)); });
                    });
}

grpc::ServerUnaryReactor* MemberServiceImpl::CheckCertificate(
    grpc::CallbackServerContext* call, const v1::CheckCertificateRequest* request,
    v1::CheckCertificateResponse* response) {
  return Serve(call, "/muster.v1.MemberService/CheckCertificate", request, response,
               [this](const v1::CheckCertificateRequest& asked,
                      const Asker& asker) -> absl::StatusOr<v1::CheckCertificateResponse> {
                 const absl::StatusOr<bool> renew =
                     office_.Check(asker, {asked.authorities().begin(), asked.authorities().end()});
                 if (!renew.ok()) return renew.status();
                 v1::CheckCertificateResponse answer;
                 answer.set_renew_now(*renew);
                 *answer.mutable_coordinator_time() = ToTimestamp(clock_.WallNow());
                 return answer;
               });
}

grpc::ServerUnaryReactor* MemberServiceImpl::RenewCertificate(
    grpc::CallbackServerContext* call, const v1::RenewCertificateRequest* request,
    v1::RenewCertificateResponse* response) {
  return Serve(call, "/muster.v1.MemberService/RenewCertificate", request, response,
               [this](const v1::RenewCertificateRequest& asked,
                      const Asker& asker) -> absl::StatusOr<v1::RenewCertificateResponse> {
                 const absl::StatusOr<MemberOffice::Renewed> renewed =
                     office_.Renew(asker, asked.csr());
                 if (!renewed.ok()) return renewed.status();
                 v1::RenewCertificateResponse answer;
                 answer.set_certificate_pem(renewed->certificate.ToPem());
                 answer.set_ca_bundle_pem(ToPem(renewed->trust->ca_bundle));
                 answer.mutable_coordinators()->Add(addresses_.begin(), addresses_.end());
                 *answer.mutable_coordinator_time() = ToTimestamp(clock_.WallNow());
                 return answer;
               });
}

}  // namespace muster
