#include "agent/rpc/log_client.h"

#include <grpcpp/channel.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

#include "agent/rpc/client_stream.h"
#include "common/base/annotate.h"
#include "muster/v1/agent.grpc.pb.h"

namespace muster {
namespace {

constexpr std::chrono::milliseconds kEndLimit{2000};
constexpr Backoff::Options kBackoff{std::chrono::milliseconds(20), std::chrono::milliseconds(5000)};

}  // namespace

// One stream, as the shipper sees it.
class LogClient::Stream final : public LogSink {
 public:
  using Wire = ClientStream<v1::UploadLogsRequest, v1::UploadLogsResponse>;

  Stream(Executor& executor, const std::shared_ptr<grpc::Channel>& channel,
         Wire::Callbacks callbacks)
      : stub_(v1::AgentService::NewStub(channel)) {
    wire_ = Wire::Start(
        executor,
        [this](grpc::ClientContext* context, Wire::Reactor* reactor) {
          stub_->async()->UploadLogs(context, reactor);
        },
        std::move(callbacks));
  }
  ~Stream() override {
    End();
    if (!wire_->WaitEnded(kEndLimit)) spdlog::error("log stream does not end");
  }

  // Nothing more is heard of the stream.
  void End() {
    wire_->Silence();
    wire_->Cancel();
  }
  bool ended() const { return wire_->WaitEnded(std::chrono::milliseconds(0)); }

  void Send(v1::UploadLogsRequest request) override { wire_->Send(std::move(request)); }
  void Close(absl::Status status) override {
    spdlog::error("log stream closed reason=\"{}\"", MessageOf(status));
    closed_ = true;
    wire_->Cancel();
  }

  // The shipper ended the stream and does not want to hear of it any more.
  bool closed() const { return closed_; }
  bool answered = false;

 private:
  std::unique_ptr<v1::AgentService::Stub> stub_;
  std::shared_ptr<Wire> wire_;
  bool closed_ = false;
};

LogClient::LogClient(Executor& executor, Dialer dialer, uint64_t seed, LogShipper& shipper)
    : executor_(executor),
      dialer_(std::move(dialer)),
      shipper_(shipper),
      backoff_(kBackoff, seed) {}

LogClient::~LogClient() { Close(); }

void LogClient::Open(const std::string& session_id) {
  Close();
  session_id_ = session_id;
  backoff_.Reset();
  Dial();
}

void LogClient::Close() {
  session_id_.clear();
  executor_.Cancel(std::exchange(timer_, 0));
  if (stream_ && !stream_->closed()) shipper_.OnDisconnected();
  Retire();
}

// Lets go of the stream without waiting for gRPC, which would block the loop.
void LogClient::Retire() {
  std::erase_if(ending_, [](const std::unique_ptr<Stream>& stream) { return stream->ended(); });
  if (stream_) {
    stream_->End();
    ending_.push_back(std::move(stream_));
  }
  channel_.reset();
}

void LogClient::Dial() {
  timer_ = 0;
  absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = dialer_(ChannelUse::kLogs);
  if (!channel.ok()) {  // The session client has said so.
    timer_ = executor_.PostAfter(kBackoff.most, [this] { Dial(); });
    return;
  }
  channel_ = *std::move(channel);
  stream_ = std::make_unique<Stream>(
      executor_, channel_,
      Stream::Wire::Callbacks{.message =
                                  [this](const v1::UploadLogsResponse& response) {
                                    if (!std::exchange(stream_->answered, true)) backoff_.Reset();
                                    if (!stream_->closed()) shipper_.OnMessage(response);
                                  },
                              .ended = [this](const absl::Status& status) { OnEnded(status); }});
  shipper_.OnConnected(stream_.get(), session_id_);
}

void LogClient::OnEnded(const absl::Status& status) {
  if (!stream_->closed()) {
    spdlog::debug("log stream ended reason=\"{}\"", MessageOf(status));
    shipper_.OnDisconnected();
  }
  Retire();
  timer_ = executor_.PostAfter(backoff_.Next(), [this] { Dial(); });
}

}  // namespace muster
