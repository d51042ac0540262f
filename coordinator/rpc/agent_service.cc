#include "coordinator/rpc/agent_service.h"

#include "coordinator/rpc/agent_stream.h"

namespace muster {

grpc::ServerBidiReactor<v1::AgentMessage, v1::CoordinatorMessage>* AgentServiceImpl::Session(
    grpc::CallbackServerContext* call) {
  constexpr char kMethod[] = "/muster.v1.AgentService/Session";
  const Peer peer = Authorize(services_, *call, kMethod);
  if (peer.role == Role::kNobody) {
    return new RefusedStream<grpc::ServerBidiReactor<v1::AgentMessage, v1::CoordinatorMessage>>(
        Denied(kMethod));
  }
  return ServeStream<AgentStream>(peer, services_, call, peer.node);
}

grpc::ServerBidiReactor<v1::UploadLogsRequest, v1::UploadLogsResponse>*
AgentServiceImpl::UploadLogs(grpc::CallbackServerContext* call) {
  constexpr char kMethod[] = "/muster.v1.AgentService/UploadLogs";
  const Peer peer = Authorize(services_, *call, kMethod);
  if (peer.role == Role::kNobody) {
    return new RefusedStream<
        grpc::ServerBidiReactor<v1::UploadLogsRequest, v1::UploadLogsResponse>>(Denied(kMethod));
  }
  return ServeStream<LogUpload>(peer, services_, call, peer.node, uploads_);
}

}  // namespace muster
