// AgentService on gRPC: makes one reactor per stream. Called by gRPC threads.
#pragma once

#include "coordinator/rpc/log_upload.h"
#include "coordinator/rpc/service_context.h"
#include "muster/v1/agent.grpc.pb.h"

namespace muster {

class AgentServiceImpl final : public v1::AgentService::CallbackService {
 public:
  // `services` outlives the server.
  explicit AgentServiceImpl(const ServiceContext& services) : services_(services) {}

  grpc::ServerBidiReactor<v1::AgentMessage, v1::CoordinatorMessage>* Session(
      grpc::CallbackServerContext* call) override;
  grpc::ServerBidiReactor<v1::UploadLogsRequest, v1::UploadLogsResponse>* UploadLogs(
      grpc::CallbackServerContext* call) override;

 private:
  const ServiceContext& services_;
  LogUploads uploads_;  // of the loop
};

}  // namespace muster
