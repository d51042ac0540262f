#include "coordinator/rpc/node_service.h"

#include <fmt/format.h>

#include <utility>

#include "common/rpc/limits.h"
#include "coordinator/rpc/check_stream.h"
#include "coordinator/rpc/unary_call.h"

namespace muster {

NodeServiceImpl::NodeServiceImpl(const ServiceContext& services) : services_(services) {
  using grpc::internal::CallbackServerStreamingHandler;
  // In the order of the proto, as the generated code counts them.
  MarkMethodRawCallback(
      1, new CallbackServerStreamingHandler<grpc::ByteBuffer, v1::CheckNodesResponse>(
             [this](grpc::CallbackServerContext* call, const grpc::ByteBuffer* request) {
               return Check(call, request);
             }));
}

grpc::ServerWriteReactor<v1::CheckNodesResponse>* NodeServiceImpl::Check(
    grpc::CallbackServerContext* call, const grpc::ByteBuffer* request) {
  using Refused = RefusedStream<grpc::ServerWriteReactor<v1::CheckNodesResponse>>;
  constexpr char kMethod[] = "/muster.v1.NodeService/CheckNodes";
  const Peer peer = Authorize(services_, *call, kMethod);
  if (peer.role == Role::kNobody) return new Refused(Denied(kMethod, peer));
  v1::CheckNodesRequest parsed;
  absl::Status status = ParseBounded(*request, kRequestBounds, &parsed);
  if (status.ok() && parsed.ByteSizeLong() > kMaxJobSpecBytes) {
    status =
        absl::InvalidArgumentError(fmt::format("the request has {} bytes, at most {} are "
                                               "allowed",
                                               parsed.ByteSizeLong(), kMaxJobSpecBytes));
  }
  if (!status.ok()) return new Refused(ToGrpc(status));
  return ServeStream<CheckStream>(peer, services_, call, CallerOf(peer), std::move(parsed));
}

grpc::ServerUnaryReactor* NodeServiceImpl::ListNodes(grpc::CallbackServerContext* call,
                                                     const v1::ListNodesRequest* request,
                                                     v1::ListNodesResponse* response) {
  return ServeUnary(services_, call, "/muster.v1.NodeService/ListNodes", request, response,
                    [this](v1::ListNodesRequest asked, const Peer& peer, auto done) {
                      services_.core.ListNodes(std::move(asked), CallerOf(peer), std::move(done));
                    });
}

}  // namespace muster
