// The client's half of a bidirectional stream, as both connections of the agent use it: a callback
// reactor that only decodes, posts to the loop, and keeps itself alive until gRPC is done with it.
// Start, Send, Cancel and Silence are for the loop thread, and the callbacks run there. It never
// dials again: that is its owner's business.
//
//   Start -> messages... -> ended (exactly once)
//
// Rules of gRPC 1.51 that it keeps: writes go through OutboundStream, one at a time; holds last
// while reads and writes may be started from outside of reactions. The next read starts when the
// loop has dealt with the message before, so that a fast peer cannot fill the memory.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <utility>

#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "common/rpc/grpc_status.h"
#include "common/rpc/outbound_stream.h"

namespace muster {

template <typename Outgoing, typename Incoming>
class ClientStream final : public grpc::ClientBidiReactor<Outgoing, Incoming>,
                           public std::enable_shared_from_this<ClientStream<Outgoing, Incoming>> {
 public:
  using Reactor = grpc::ClientBidiReactor<Outgoing, Incoming>;
  struct Callbacks {
    std::function<void(const Incoming&)> message;
    std::function<void(const absl::Status&)> ended;
  };
  // Hands the reactor to the stub: `stub->async()->Method(context, reactor)`.
  using Bind = std::function<void(grpc::ClientContext* context, Reactor* reactor)>;

  // `executor` outlives the stream: see WaitEnded.
  static std::shared_ptr<ClientStream> Start(Executor& executor, const Bind& bind,
                                             Callbacks callbacks) {
    auto stream = std::shared_ptr<ClientStream>(new ClientStream(executor, std::move(callbacks)));
    stream->self_ = stream;
    bind(&stream->context_, stream.get());
    stream->AddMultipleHolds(2);  // One for reads, one for writes.
    stream->StartRead(&stream->incoming_);
    stream->StartCall();
    return stream;
  }

  // Queues one message. When the peer does not read, the stream is cancelled.
  void Send(Outgoing message) {
    if (outbound_.Send(std::move(message)) == SendResult::kFull) Cancel();
  }

  // Ends the stream now; `ended` follows.
  void Cancel() {
    context_.TryCancel();
    if (StopReads()) this->RemoveHold();
    // The hold is given back when nothing is written any more.
    outbound_.Close([this](bool) { this->RemoveHold(); });
  }

  // Drops the callbacks: none runs afterwards. Not inside one of them.
  void Silence() { callbacks_ = {}; }

  // Blocks until gRPC does not use the stream any more and nothing will be posted, or until `limit`
  // has passed.
  bool WaitEnded(std::chrono::milliseconds limit) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    MutexLock lock(mutex_);
    while (!ended_) {
      if (changed_.wait_until(mutex_, deadline) == std::cv_status::timeout) return ended_;
    }
    return true;
  }

 private:
  ClientStream(Executor& executor, Callbacks callbacks)
      : executor_(executor), callbacks_(std::move(callbacks)), outbound_(this) {}

  void OnReadDone(bool ok) override {
    if (!ok || !ParkRead()) {
      this->RemoveHold();
      // The peer ended the call, or the connection broke. A write in flight must not hold it.
      Cancel();
      return;
    }
    executor_.Post([self = this->shared_from_this()] {
      if (self->callbacks_.message) self->callbacks_.message(self->incoming_);
      if (!self->UnparkRead()) return;
      self->incoming_.Clear();
      self->StartRead(&self->incoming_);
    });
  }

  void OnWriteDone(bool ok) override { outbound_.OnWriteDone(ok); }

  void OnDone(const grpc::Status& status) override {
    MutexLock lock(mutex_);
    // The loop gets this thread's share in the stream. With its context goes the last share in the
    // channel, maybe, and gRPC 1.51 aborts the process when a channel ends on a thread of its own.
    executor_.Post([self = std::move(self_), status = FromGrpc(status)] {
      { MutexLock until_done(self->mutex_); }
      if (self->callbacks_.ended) std::exchange(self->callbacks_, {}).ended(status);
    });
    ended_ = true;
    changed_.notify_all();
  }

  // A read is parked between the message that it brought and the next one. Whoever ends the reading
  // of a parked stream gives the hold back; a read that is under way does so itself when it fails.
  bool ParkRead() {
    MutexLock lock(mutex_);
    parked_ = !cancelled_;
    return parked_;
  }
  bool UnparkRead() {
    MutexLock lock(mutex_);
    return std::exchange(parked_, false);
  }
  bool StopReads() {
    MutexLock lock(mutex_);
    cancelled_ = true;
    return std::exchange(parked_, false);
  }

  Executor& executor_;
  Callbacks callbacks_;
  grpc::ClientContext context_;
  Incoming incoming_;
  OutboundStream<Reactor, Outgoing> outbound_;
  std::shared_ptr<ClientStream> self_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool parked_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace muster
