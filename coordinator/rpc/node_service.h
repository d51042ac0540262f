// NodeService on gRPC. Called by gRPC threads.
#pragma once

#include "coordinator/rpc/service_context.h"
#include "muster/v1/node.grpc.pb.h"

namespace muster {

class NodeServiceImpl final : public v1::NodeService::CallbackService {
 public:
  // `services` outlives the server.
  explicit NodeServiceImpl(const ServiceContext& services);

  grpc::ServerUnaryReactor* ListNodes(grpc::CallbackServerContext* call,
                                      const v1::ListNodesRequest* request,
                                      v1::ListNodesResponse* response) override;

 private:
  grpc::ServerWriteReactor<v1::CheckNodesResponse>* Check(grpc::CallbackServerContext* call,
                                                          const grpc::ByteBuffer* request);

  const ServiceContext& services_;
};

}  // namespace muster
