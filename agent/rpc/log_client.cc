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

}  // namespace

// One stream, as the shipper sees it.
class LogClient::Stream final : public LogSink {
 public:
  using Wire = ClientStream<v1::UploadLogsRequest, v1::UploadLogsResponse>;

  Stream(LogClient& client, const std::shared_ptr<grpc::Channel>& channel)
      : stub_(v1::AgentService::NewStub(channel)) {
    wire_ = Wire::Start(
        client.executor_,
        [this](grpc::ClientContext* context, Wire::Reactor* reactor) {
          stub_->async()->UploadLogs(context, reactor);
        },
        {.message =
             [this, &client](const v1::UploadLogsResponse& response) {
               client.OnMessage(*this, response);
             },
         .ended = [this, &client](const absl::Status& status) { client.OnEnded(*this, status); }});
  }
  ~Stream() override {
    wire_->Silence();
    wire_->Cancel();
    if (!wire_->WaitEnded(kEndLimit)) spdlog::error("log stream does not end");
  }

  void Cancel() { wire_->Cancel(); }

  void Send(v1::UploadLogsRequest request) override { wire_->Send(std::move(request)); }
  void Close(absl::Status status) override {
    spdlog::error("log stream closed reason=\"{}\"", MessageOf(status));
    closed_ = true;
    wire_->Cancel();
  }

  // The shipper ended the stream and does not want to hear of it any more.
  bool closed() const { return closed_; }

 private:
  std::unique_ptr<v1::AgentService::Stub> stub_;
  std::shared_ptr<Wire> wire_;
  bool closed_ = false;
};

LogClient::LogClient(Executor& executor, Dialer dialer, uint64_t seed, LogShipper& shipper,
                     Duration idle)
    : dialer_(std::move(dialer)),
      executor_(executor),
      shipper_(shipper),
      connection_(executor, *this, seed, idle) {}

LogClient::~LogClient() { OnSessionLost(); }

void LogClient::OnSession(const std::string& session_id) {
  OnSessionLost();
  shipper_.OnSession(session_id);
  connection_.OnSession();
}

void LogClient::OnSessionLost() {
  connection_.OnSessionLost();
  shipper_.OnSessionLost();
}

void LogClient::OnWork(bool work) { connection_.OnWork(work); }

bool LogClient::Open() {
  const absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = dialer_(ChannelUse::kLogs);
  if (!channel.ok()) return false;  // The session client has said so.
  stream_ = std::make_unique<Stream>(*this, *channel);
  shipper_.OnConnected(stream_.get());
  return true;
}

// Does not wait for gRPC, which would block the loop.
void LogClient::Close() {
  if (!stream_->closed()) shipper_.OnDisconnected();
  stream_->Cancel();
  ending_.push_back(std::move(stream_));
}

void LogClient::OnMessage(const Stream& stream, const v1::UploadLogsResponse& response) {
  if (&stream != stream_.get()) return;
  connection_.OnAnswered();
  if (!stream.closed()) shipper_.OnMessage(response);
}

void LogClient::OnEnded(const Stream& stream, const absl::Status& status) {
  if (&stream != stream_.get()) {
    std::erase_if(ending_, [&](const auto& one) { return one.get() == &stream; });
    return;
  }
  if (!stream.closed()) {
    spdlog::debug("log stream ended reason=\"{}\"", MessageOf(status));
    shipper_.OnDisconnected();
  }
  stream_.reset();
  connection_.OnEnded();
}

}  // namespace muster
