#include "coordinator/rpc/node_service.h"

#include "coordinator/rpc/unary_call.h"

namespace muster {

grpc::ServerUnaryReactor* NodeServiceImpl::ListNodes(grpc::CallbackServerContext* call,
                                                     const v1::ListNodesRequest* request,
                                                     v1::ListNodesResponse* response) {
  return ServeUnary(services_, call, "/muster.v1.NodeService/ListNodes", request, response,
                    [this](v1::ListNodesRequest asked, const Peer& peer, auto done) {
                      services_.core.ListNodes(std::move(asked), CallerOf(peer), std::move(done));
                    });
}

}  // namespace muster
