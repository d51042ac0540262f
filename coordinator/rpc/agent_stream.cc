#include "coordinator/rpc/agent_stream.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "common/base/annotate.h"
#include "common/log/log.h"
#include "common/rpc/bounded_message.h"
#include "common/rpc/grpc_status.h"
#include "common/rpc/limits.h"

namespace muster {

AgentStream::AgentStream(const ServiceContext& services, grpc::CallbackServerContext* call,
                         std::optional<NodeId> node)
    : StreamReactor(services, call), node_(std::move(node)) {}

void AgentStream::Begin() {
  session_ = services().core.OnAgentConnected(this, node_);
  Read();
}

void AgentStream::Read() {
  incoming_.Clear();
  IfOpen([this] { StartRead(&incoming_); });
}

void AgentStream::OnReadDone(bool ok) {
  // The next read begins only when the core has taken this message: a flood waits at its source.
  OnLoop([this, ok] {
    if (!ok) {
      Disconnect();
      if (!closing_) Close(absl::OkStatus());
      return;
    }
    if (closing_) return;
    v1::AgentMessage message;
    const absl::Status parsed = ParseBounded(
        incoming_, {.wire_bytes = kMaxAgentMessageBytes, .memory_bytes = kMaxAgentMessageMemory},
        &message);
    if (!parsed.ok()) {
      spdlog::warn("agent stream ended node={} error={}", node_.has_value() ? node_->value() : "",
                   LogQuoted(MessageOf(parsed)));
      Disconnect();
      Close(parsed);
      return;
    }
    services().core.OnAgentMessage(session_, std::move(message));
    if (!closing_) Read();
  });
}

void AgentStream::Send(v1::CoordinatorMessage message) {
  if (closing_) return;
  if (outbound_.Send(std::move(message)) == SendResult::kFull) CancelCall();
}

void AgentStream::Close(absl::Status status) {
  if (std::exchange(closing_, true)) return;
  LimitClosing();
  outbound_.CloseAfterFlush([this, status = ToGrpc(status)](bool) { FinishCall(status); });
}

void AgentStream::Disconnect() {
  if (session_ == SessionHandle::kNone) return;
  services().core.OnAgentDisconnected(std::exchange(session_, SessionHandle::kNone));
}

void AgentStream::Ended() { Disconnect(); }

}  // namespace muster
