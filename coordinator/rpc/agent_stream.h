// One agent's Session stream: decodes, posts to the core, and writes what the core sends.
//
//   agent                      this                                   core (loop)
//   hello, heartbeat, events ->  one read at a time, each read ------> OnAgentMessage
//                                begins when the core is through
//   welcome, assignment, ... <-  OutboundStream <--------------------- AgentSink::Send, Close
//
// Failure rules: a message that is too large, or that is none, ends the stream. An agent that does
// not read loses its stream, and finds everything in the snapshot when it comes back. However the
// stream ends, the core hears OnAgentDisconnected exactly once.
#pragma once

#include <optional>

#include "common/rpc/outbound_stream.h"
#include "coordinator/rpc/stream_reactor.h"
#include "coordinator/session/agent_sink.h"
#include "muster/v1/agent.pb.h"

namespace muster {

class AgentStream final
    : public StreamReactor<grpc::ServerBidiReactor<grpc::ByteBuffer, v1::CoordinatorMessage>>,
      public AgentSink {
 public:
  // `node`: the node that the credentials are for, nothing when they are good for any.
  AgentStream(const ServiceContext& services, grpc::CallbackServerContext* call,
              std::optional<NodeId> node);

  // Reactions.
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override { outbound_.OnWriteDone(ok); }

  // AgentSink; loop only.
  void Send(v1::CoordinatorMessage message) override;
  void Close(absl::Status status) override;

 private:
  void Begin() override;
  void Ended() override;
  void Read();
  void Disconnect();

  const std::optional<NodeId> node_;
  grpc::ByteBuffer incoming_;
  // Of the loop.
  SessionHandle session_ = SessionHandle::kNone;
  bool closing_ = false;

  OutboundStream<AgentStream, v1::CoordinatorMessage> outbound_{this};
};

}  // namespace muster
