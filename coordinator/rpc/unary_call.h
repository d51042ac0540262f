// One unary call from the gRPC thread through the loop to its answer. However the answer gets lost
// (the client gave up, the core is gone, the loop has ended), the call ends.
#pragma once

#include <absl/status/statusor.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <utility>

#include "common/base/mutex.h"
#include "common/rpc/bounded_message.h"
#include "common/rpc/grpc_status.h"
#include "common/rpc/limits.h"
#include "coordinator/rpc/service_context.h"

namespace muster {

// Takes the answer of a call once: the first that comes, from whatever thread. `response` is gRPC's
// and is gone once the call was finished, so that later answers must not touch it.
template <typename Response>
class UnaryReply {
 public:
  UnaryReply(grpc::ServerUnaryReactor* reactor, Response* response)
      : reactor_(reactor), response_(response) {}

  void Finish(absl::StatusOr<Response> result) {
    MutexLock lock(mutex_);
    if (std::exchange(finished_, true)) return;
    if (result.ok()) *response_ = *std::move(result);
    reactor_->Finish(ToGrpc(result.status()));
  }

 private:
  grpc::ServerUnaryReactor* const reactor_;
  Response* const response_;
  Mutex mutex_;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

// Owns itself until the call is over.
template <typename Response>
class UnaryReactor final : public grpc::ServerUnaryReactor {
 public:
  explicit UnaryReactor(Response* response)
      : reply_(std::make_shared<UnaryReply<Response>>(this, response)) {}

  void OnCancel() override { reply_->Finish(absl::CancelledError("the client gave up")); }
  void OnDone() override { delete this; }

  // Finishes the call with UNAVAILABLE when the last copy goes without an answer.
  std::shared_ptr<UnaryReply<Response>> MakeReply() {
    return {reply_.get(), [reply = reply_](UnaryReply<Response>*) {
              reply->Finish(absl::UnavailableError("the coordinator is stopping"));
            }};
  }

 private:
  const std::shared_ptr<UnaryReply<Response>> reply_;
};

// What a request may be, and take in memory when it is parsed. Requests that come parsed already
// are those that cannot grow large.
inline constexpr MessageBounds kRequestBounds{.wire_bytes = kMaxMessageBytes,
                                              .memory_bytes = size_t{64} << 20};

// Runs `start(request, peer, done)` on the loop when the peer may call `method`; `done` takes an
// absl::StatusOr<Response>.
template <typename Request, typename Response, typename Start>
grpc::ServerUnaryReactor* ServeUnary(const ServiceContext& services,
                                     grpc::CallbackServerContext* call, std::string_view method,
                                     const Request* request, Response* response, Start start) {
  auto* reactor = new UnaryReactor<Response>(response);
  Peer peer = Authorize(services, *call, method);
  if (peer.role == Role::kNobody) {
    reactor->Finish(Denied(method, peer));
    return reactor;
  }
  // A copy: gRPC's is gone when the call is cancelled before the loop comes to it.
  services.loop.Post([request = *request, peer = std::move(peer), start = std::move(start),
                      reply = reactor->MakeReply()]() mutable {
    start(std::move(request), peer,
          [reply](absl::StatusOr<Response> result) { reply->Finish(std::move(result)); });
  });
  return reactor;
}

// The same for a request that comes as bytes: it is parsed when the peer may call `method` and it
// is not too large.
template <typename Request, typename Response, typename Start>
grpc::ServerUnaryReactor* ServeUnaryBytes(const ServiceContext& services,
                                          grpc::CallbackServerContext* call,
                                          std::string_view method, const grpc::ByteBuffer* request,
                                          Response* response, Start start) {
  Request parsed;
  if (Authorize(services, *call, method).role != Role::kNobody) {
    const absl::Status status = ParseBounded(*request, kRequestBounds, &parsed);
    if (!status.ok()) {
      auto* reactor = new UnaryReactor<Response>(response);
      reactor->Finish(ToGrpc(status));
      return reactor;
    }
  }
  return ServeUnary(services, call, method, &parsed, response, std::move(start));
}

}  // namespace muster
