#include "coordinator/rpc/trust_service.h"

#include <utility>

#include "common/crypto/encoding.h"
#include "coordinator/core/proto_time.h"
#include "coordinator/rpc/trust_kinds.h"
#include "coordinator/rpc/unary_call.h"

namespace muster {
namespace {

absl::StatusOr<IdentityKind> KindOf(v1::MemberKind kind) {
  switch (kind) {
    case v1::MEMBER_AGENT:
      return IdentityKind::kAgent;
    case v1::MEMBER_USER:
      return IdentityKind::kUser;
    case v1::MEMBER_ADMIN:
      return IdentityKind::kAdmin;
    default:
      return absl::InvalidArgumentError("kind: must be agent, user or admin");
  }
}

v1::Token ToProto(const StoredToken& token) {
  v1::Token proto;
  proto.set_token_id(token.id);
  proto.set_kind(KindOf(token.role));
  proto.set_name(token.bound_name);
  proto.set_network(token.bound_network);
  proto.set_uses_left(static_cast<uint32_t>(token.uses_left));
  *proto.mutable_create_time() = ToTimestamp(token.created_at);
  *proto.mutable_expire_time() = ToTimestamp(token.expires_at);
  return proto;
}

v1::Member ToProto(const Member& member) {
  v1::Member proto;
  proto.set_kind(KindOf(member.kind));
  proto.set_name(member.name);
  proto.set_serial(member.serial);
  proto.set_key_sha256(HexEncode(member.spki_sha256));
  *proto.mutable_certificate_end_time() = ToTimestamp(member.not_after);
  *proto.mutable_join_time() = ToTimestamp(member.joined_at);
  proto.set_revoked(member.revoked);
  return proto;
}

}  // namespace

TrustServiceImpl::TrustServiceImpl(const ServiceContext& services, TrustOffice& office,
                                   Revocations& revocations, std::vector<std::string> addresses)
    : services_(services),
      office_(office),
      revocations_(revocations),
      addresses_(std::move(addresses)) {}

template <typename Request, typename Response, typename Act>
grpc::ServerUnaryReactor* TrustServiceImpl::Serve(grpc::CallbackServerContext* call,
                                                  std::string_view method, const Request* request,
                                                  Response* response, Act act) {
  return ServeUnary(services_, call, method, request, response,
                    [this, act = std::move(act), source = call->peer()](
                        Request asked, const Peer& peer, auto done) {
                      Actor actor{.name = peer.user, .serial = peer.serial, .source = source};
                      worker_.Post([act, asked = std::move(asked), actor = std::move(actor),
                                    done = std::move(done)] { done(act(asked, actor)); });
                    });
}

grpc::ServerUnaryReactor* TrustServiceImpl::CreateToken(grpc::CallbackServerContext* call,
                                                        const v1::CreateTokenRequest* request,
                                                        v1::CreateTokenResponse* response) {
  return Serve(call, "/muster.v1.TrustService/CreateToken", request, response,
               [this](const v1::CreateTokenRequest& asked,
                      const Actor& actor) -> absl::StatusOr<v1::CreateTokenResponse> {
                 const absl::StatusOr<IdentityKind> kind = KindOf(asked.kind());
                 if (!kind.ok()) return kind.status();
                 TokenWish wish{.role = *kind,
                                .bound_name = asked.name(),
                                .bound_network = asked.network(),
                                .uses = asked.uses() == 0 ? 1 : int64_t{asked.uses()}};
                 if (asked.has_life()) wish.life = ToDuration(asked.life());
                 const absl::StatusOr<NewToken> token = office_.MakeToken(wish, actor);
                 if (!token.ok()) return token.status();
                 v1::CreateTokenResponse answer;
                 answer.set_token(token->text);
                 *answer.mutable_info() = ToProto(token->stored);
                 answer.mutable_addresses()->Add(addresses_.begin(), addresses_.end());
                 return answer;
               });
}

grpc::ServerUnaryReactor* TrustServiceImpl::ListTokens(grpc::CallbackServerContext* call,
                                                       const v1::ListTokensRequest* request,
                                                       v1::ListTokensResponse* response) {
  return Serve(
      call, "/muster.v1.TrustService/ListTokens", request, response,
      [this](const v1::ListTokensRequest&, const Actor&) -> absl::StatusOr<v1::ListTokensResponse> {
        const absl::StatusOr<std::vector<StoredToken>> tokens = office_.Tokens();
        if (!tokens.ok()) return tokens.status();
        v1::ListTokensResponse answer;
        for (const StoredToken& token : *tokens) *answer.add_tokens() = ToProto(token);
        return answer;
      });
}

grpc::ServerUnaryReactor* TrustServiceImpl::DeleteToken(grpc::CallbackServerContext* call,
                                                        const v1::DeleteTokenRequest* request,
                                                        v1::DeleteTokenResponse* response) {
  return Serve(call, "/muster.v1.TrustService/DeleteToken", request, response,
               [this](const v1::DeleteTokenRequest& asked,
                      const Actor& actor) -> absl::StatusOr<v1::DeleteTokenResponse> {
                 const absl::Status status = office_.DeleteToken(asked.token_id(), actor);
                 if (!status.ok()) return status;
                 return v1::DeleteTokenResponse();
               });
}

grpc::ServerUnaryReactor* TrustServiceImpl::ListMembers(grpc::CallbackServerContext* call,
                                                        const v1::ListMembersRequest* request,
                                                        v1::ListMembersResponse* response) {
  return Serve(call, "/muster.v1.TrustService/ListMembers", request, response,
               [this](const v1::ListMembersRequest&,
                      const Actor&) -> absl::StatusOr<v1::ListMembersResponse> {
                 const absl::StatusOr<std::vector<Member>> members = office_.Members();
                 if (!members.ok()) return members.status();
                 v1::ListMembersResponse answer;
                 for (const Member& member : *members) *answer.add_members() = ToProto(member);
                 return answer;
               });
}

grpc::ServerUnaryReactor* TrustServiceImpl::RevokeMember(grpc::CallbackServerContext* call,
                                                         const v1::RevokeMemberRequest* request,
                                                         v1::RevokeMemberResponse* response) {
  return Serve(call, "/muster.v1.TrustService/RevokeMember", request, response,
               [this](const v1::RevokeMemberRequest& asked,
                      const Actor& actor) -> absl::StatusOr<v1::RevokeMemberResponse> {
                 const absl::StatusOr<IdentityKind> kind = KindOf(asked.kind());
                 if (!kind.ok()) return kind.status();
                 const absl::StatusOr<std::vector<std::string>> serials =
                     office_.Revoke(*kind, asked.name(), asked.free_name(), actor);
                 if (!serials.ok()) return serials.status();
                 // First nobody comes in, then those that are in go.
                 revocations_.Add(*serials);
                 v1::RevokeMemberResponse answer;
                 answer.set_certificates(static_cast<uint32_t>(serials->size()));
                 answer.set_streams(static_cast<uint32_t>(services_.live_calls.CutAll(*serials)));
                 return answer;
               });
}

}  // namespace muster
