// Base of the server's streaming reactors: keeps itself alive from the start of the call to its
// end, and does everything but decoding on the loop.
//
// Life: made by `ServeStream`; `Begin` runs on the loop; reactions post to the loop with `OnLoop`;
// the call is finished with `FinishCall`; when it is over on the wire, `Ended` runs on the loop,
// last of all. gRPC may destroy its side of the call once it was finished and reactions are
// through, so that every operation goes through `IfOpen`.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "common/base/mutex.h"
#include "coordinator/rpc/service_context.h"

namespace muster {

template <typename GrpcReactor>
class StreamReactor : public GrpcReactor,
                      public LiveCall,
                      public std::enable_shared_from_this<StreamReactor<GrpcReactor>> {
 public:
  StreamReactor(const ServiceContext& services, grpc::CallbackServerContext* call)
      : services_(services), call_(call) {}

  // Called once, by ServeStream.
  void Own(const Peer& peer) {
    self_ = this->shared_from_this();
    if (!peer.serial.empty()) services_.live_calls.Add(peer.serial, peer.certificate, self_);
    OnLoop([this] { Begin(); });
  }

  void Cut() final { CancelCall(); }

  // No reaction follows; the call is over on the wire.
  void OnDone() final {
    {
      MutexLock lock(mutex_);
      call_ = nullptr;
    }
    services_.loop.Post([self = std::move(self_)] {
      self->services_.loop.Cancel(self->closing_timer_);
      self->ended_ = true;
      self->Ended();
    });
  }

 protected:
  virtual void Begin() = 0;
  // The last thing that happens. Nothing that was given to OnLoop runs afterwards.
  virtual void Ended() = 0;

  // Runs `task` on the loop, unless `Ended` ran before. Any thread.
  void OnLoop(std::function<void()> task) {
    services_.loop.Post([self = this->shared_from_this(), task = std::move(task)] {
      if (!self->ended_) task();
    });
  }

  // Runs `operation`, which may start a read, unless the call was finished. Any thread.
  template <typename Operation>
  void IfOpen(Operation operation) {
    MutexLock lock(mutex_);
    if (!finished_) operation();
  }

  // Sends the status; the first one counts. Not while a write is in flight. Any thread.
  void FinishCall(grpc::Status status) {
    MutexLock lock(mutex_);
    if (!std::exchange(finished_, true)) this->Finish(std::move(status));
  }

  // Cancels the call, which ends reads and writes that would otherwise wait for the peer. Any
  // thread.
  void CancelCall() {
    MutexLock lock(mutex_);
    if (call_ != nullptr) call_->TryCancel();
  }

  // Gives the peer a short time to read what is still on its way. Loop only.
  void LimitClosing() {
    if (closing_timer_ != 0) return;
    closing_timer_ = services_.loop.PostAfter(
        std::chrono::seconds(2), [self = this->shared_from_this()] { self->CancelCall(); });
  }

  const ServiceContext& services() const { return services_; }

 private:
  const ServiceContext& services_;
  Mutex mutex_;
  // Null once the call is over.
  grpc::CallbackServerContext* call_ ABSL_GUARDED_BY(mutex_);
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<StreamReactor> self_;
  // Of the loop.
  bool ended_ = false;
  Executor::TimerId closing_timer_ = 0;
};

// Makes a reactor for a call of `peer` that owns itself and begins it.
template <typename Reactor, typename... Args>
Reactor* ServeStream(const Peer& peer, Args&&... args) {
  auto reactor = std::make_shared<Reactor>(std::forward<Args>(args)...);
  reactor->Own(peer);
  return reactor.get();
}

// A reactor that ends the call at once.
template <typename GrpcReactor>
class RefusedStream final : public GrpcReactor {
 public:
  explicit RefusedStream(grpc::Status status) { this->Finish(std::move(status)); }
  void OnDone() override { delete this; }
};

}  // namespace muster
