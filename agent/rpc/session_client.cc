#include "agent/rpc/session_client.h"

#include <grpc/grpc.h>
#include <grpcpp/channel.h>
#include <spdlog/spdlog.h>

#include <utility>

#include "agent/rpc/client_stream.h"
#include "common/base/annotate.h"
#include "muster/v1/agent.grpc.pb.h"

namespace muster {
namespace {

// How long a destructor waits for gRPC to let go of a cancelled call.
constexpr std::chrono::milliseconds kEndLimit{2000};

}  // namespace

// One stream, as the core sees it.
class SessionClient::Stream final : public AgentSessionSink {
 public:
  using Wire = ClientStream<v1::AgentMessage, v1::CoordinatorMessage>;

  Stream(Executor& executor, const std::shared_ptr<grpc::Channel>& channel,
         Wire::Callbacks callbacks)
      : stub_(v1::AgentService::NewStub(channel)) {
    wire_ = Wire::Start(
        executor,
        [this](grpc::ClientContext* context, Wire::Reactor* reactor) {
          stub_->async()->Session(context, reactor);
        },
        std::move(callbacks));
  }
  ~Stream() override {
    wire_->Silence();
    wire_->Cancel();
    if (!wire_->WaitEnded(kEndLimit)) spdlog::error("session stream does not end");
  }

  void Send(v1::AgentMessage message) override { wire_->Send(std::move(message)); }
  void Close(absl::Status status) override {
    close_status_ = std::move(status);
    wire_->Cancel();
  }

  // Set when this side ended the stream.
  const absl::Status& close_status() const { return close_status_; }
  bool answered = false;

 private:
  std::unique_ptr<v1::AgentService::Stub> stub_;
  std::shared_ptr<Wire> wire_;
  absl::Status close_status_;
};

SessionClient::SessionClient(Executor& executor, Dialer dialer, uint64_t seed, Handlers handlers)
    : executor_(executor),
      dialer_(std::move(dialer)),
      handlers_(std::move(handlers)),
      backoff_(kBackoff, seed) {
  // Kept between attempts: starting and ending the library with every channel costs threads each
  // time.
  grpc_init();
}

SessionClient::~SessionClient() {
  Stop();
  grpc_shutdown();
}

void SessionClient::Start() { Dial(); }

void SessionClient::Redial() {
  if (stream_) stream_->Close(absl::UnavailableError("the agent makes the connection anew"));
}

void SessionClient::Stop() {
  stopped_ = true;
  executor_.Cancel(std::exchange(timer_, 0));
  stream_.reset();
  channel_.reset();
}

void SessionClient::Dial() {
  timer_ = 0;
  absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = dialer_(ChannelUse::kControl);
  if (!channel.ok()) {
    spdlog::error("cannot dial the coordinator error=\"{}\"", MessageOf(channel.status()));
    return DialLater(kBackoff.most);
  }
  // The old channel stays until the new one is in use: when there is none, gRPC ends its threads,
  // which takes up to 100 ms, and starts new ones.
  const std::shared_ptr<grpc::Channel> previous = std::exchange(channel_, *std::move(channel));
  stream_ = std::make_unique<Stream>(
      executor_, channel_,
      Stream::Wire::Callbacks{
          .message = [this](const v1::CoordinatorMessage& message) { OnMessage(message); },
          .ended = [this](const absl::Status& status) { OnEnded(status); }});
  // At once: what is sent waits until the connection is made, and a refused one ends the stream.
  handlers_.connected(stream_.get());
}

void SessionClient::OnMessage(const v1::CoordinatorMessage& message) {
  if (!std::exchange(stream_->answered, true)) backoff_.Reset();
  // What was under way when the core closed the stream is of no use to it.
  if (stream_->close_status().ok()) handlers_.message(message);
}

void SessionClient::OnEnded(const absl::Status& status) {
  const absl::Status own = stream_->close_status();
  const absl::Status& reason = own.ok() ? status : own;
  // The stream stays until the core has let go of it.
  handlers_.disconnected(reason.ok() ? absl::UnavailableError("the coordinator ended the session")
                                     : reason);
  stream_.reset();
  if (stopped_) return;
  std::chrono::milliseconds wait = backoff_.Next();
  if (IsLastingRefusal(reason)) {
    spdlog::warn("session refused reason=\"{}\"", MessageOf(reason));
    while (wait < kBackoff.most / 2) wait = backoff_.Next();
  }
  DialLater(wait);
}

void SessionClient::DialLater(std::chrono::milliseconds wait) {
  timer_ = executor_.PostAfter(wait, [this] { Dial(); });
}

bool IsLastingRefusal(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsPermissionDenied(status) ||
         absl::IsAborted(status) || absl::IsUnauthenticated(status) ||
         absl::IsUnimplemented(status) || absl::IsInvalidArgument(status);
}

}  // namespace muster
