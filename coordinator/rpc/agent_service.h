// AgentService on gRPC: makes one reactor per stream. Called by gRPC threads. Messages of agents
// come as bytes, so that nothing is parsed before it is known to be allowed and small enough.
#pragma once

#include "coordinator/rpc/log_upload.h"
#include "coordinator/rpc/service_context.h"
#include "muster/v1/agent.grpc.pb.h"

namespace muster {

class AgentServiceImpl final : public v1::AgentService::Service {
 public:
  // `services` outlives the server.
  explicit AgentServiceImpl(const ServiceContext& services);

 private:
  grpc::ServerBidiReactor<grpc::ByteBuffer, v1::CoordinatorMessage>* ServeSession(
      grpc::CallbackServerContext* call);
  grpc::ServerBidiReactor<grpc::ByteBuffer, v1::UploadLogsResponse>* ServeUpload(
      grpc::CallbackServerContext* call);

  const ServiceContext& services_;
  LogUploads uploads_;  // of the loop
};

}  // namespace muster
