// One unary call from the gRPC thread through the loop to its answer. However the answer gets lost
// (the core is gone, the loop has ended), the call ends.
#pragma once

#include <absl/status/statusor.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "common/rpc/grpc_status.h"
#include "coordinator/rpc/service_context.h"

namespace muster {

// Finishes a unary reactor exactly once; with UNAVAILABLE when nobody else did before it goes.
class UnaryReply {
 public:
  explicit UnaryReply(grpc::ServerUnaryReactor* reactor) : reactor_(reactor) {}
  ~UnaryReply() { Finish({grpc::StatusCode::UNAVAILABLE, "the coordinator is stopping"}); }
  UnaryReply(const UnaryReply&) = delete;
  UnaryReply& operator=(const UnaryReply&) = delete;

  void Finish(grpc::Status status) {
    if (!finished_.exchange(true)) reactor_->Finish(std::move(status));
  }

 private:
  grpc::ServerUnaryReactor* const reactor_;
  std::atomic<bool> finished_ = false;
};

// Runs `start(request, peer, done)` on the loop when the peer may call `method`; `done` takes an
// absl::StatusOr<Response>.
template <typename Request, typename Response, typename Start>
grpc::ServerUnaryReactor* ServeUnary(const ServiceContext& services,
                                     grpc::CallbackServerContext* call, std::string_view method,
                                     const Request* request, Response* response, Start start) {
  grpc::ServerUnaryReactor* reactor = call->DefaultReactor();
  Peer peer = Authorize(services, *call, method);
  if (peer.role == Role::kNobody) {
    reactor->Finish(Denied(method));
    return reactor;
  }
  auto reply = std::make_shared<UnaryReply>(reactor);
  // Request and response stay valid until the call is finished.
  services.loop.Post([request, response, peer = std::move(peer), start = std::move(start),
                      reply = std::move(reply)] {
    start(*request, peer, [response, reply](absl::StatusOr<Response> result) {
      if (result.ok()) *response = *std::move(result);
      reply->Finish(ToGrpc(result.status()));
    });
  });
  return reactor;
}

}  // namespace muster
