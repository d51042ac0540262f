// The transport's end of one agent's Session stream, as the core sees it. Owned by the transport.
// Called on the loop thread only; implementations queue and return at once and never call the core
// from inside.
#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "muster/v1/agent.pb.h"

namespace muster {

class AgentSink {
 public:
  virtual ~AgentSink() = default;
  // Queues a message. Messages leave in the order of the calls. A transport whose queue is full
  // closes the stream by itself (the agent comes back and gets a snapshot) and reports it as a
  // disconnect.
  virtual void Send(v1::CoordinatorMessage message) = 0;
  // Ends the stream with `status` once everything queued was sent. The core does not use the sink
  // afterwards and ignores further messages; the transport still reports OnAgentDisconnected.
  virtual void Close(absl::Status status) = 0;
};

// Names one stream between OnAgentConnected and OnAgentDisconnected. Never used twice; 0 names
// none.
enum class SessionHandle : uint64_t { kNone = 0 };

}  // namespace muster
