#include "coordinator/rpc/agent_service.h"

#include "coordinator/rpc/agent_stream.h"

namespace muster {
namespace {

constexpr char kSession[] = "/muster.v1.AgentService/Session";
constexpr char kUploadLogs[] = "/muster.v1.AgentService/UploadLogs";
// In the order of the proto, as the generated code counts them.
constexpr int kSessionIndex = 0;
constexpr int kUploadLogsIndex = 1;

}  // namespace

AgentServiceImpl::AgentServiceImpl(const ServiceContext& services) : services_(services) {
  using grpc::internal::CallbackBidiHandler;
  MarkMethodRawCallback(
      kSessionIndex, new CallbackBidiHandler<grpc::ByteBuffer, v1::CoordinatorMessage>(
                         [this](grpc::CallbackServerContext* call) { return ServeSession(call); }));
  MarkMethodRawCallback(
      kUploadLogsIndex,
      new CallbackBidiHandler<grpc::ByteBuffer, v1::UploadLogsResponse>(
          [this](grpc::CallbackServerContext* call) { return ServeUpload(call); }));
}

grpc::ServerBidiReactor<grpc::ByteBuffer, v1::CoordinatorMessage>* AgentServiceImpl::ServeSession(
    grpc::CallbackServerContext* call) {
  const Peer peer = Authorize(services_, *call, kSession);
  if (peer.role == Role::kNobody) {
    return new RefusedStream<grpc::ServerBidiReactor<grpc::ByteBuffer, v1::CoordinatorMessage>>(
        Denied(kSession, peer));
  }
  return ServeStream<AgentStream>(peer, services_, call, peer.node);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, v1::UploadLogsResponse>* AgentServiceImpl::ServeUpload(
    grpc::CallbackServerContext* call) {
  const Peer peer = Authorize(services_, *call, kUploadLogs);
  if (peer.role == Role::kNobody) {
    return new RefusedStream<grpc::ServerBidiReactor<grpc::ByteBuffer, v1::UploadLogsResponse>>(
        Denied(kUploadLogs, peer));
  }
  return ServeStream<LogUpload>(peer, services_, call, peer.node, uploads_);
}

}  // namespace muster
