// All open Session streams of agents. At most one session of a node is live: the newest one wins,
// by the order in which the streams were opened. Lives on the loop thread.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/base/ids.h"
#include "coordinator/session/agent_session.h"

namespace muster {

class SessionHub {
 public:
  // A stream was opened.
  AgentSession& Add(AgentSink* sink, std::optional<NodeId> authenticated);
  // Null when there is none (any more).
  AgentSession* Find(SessionHandle handle);
  // The stream is over. Returns the node whose live session it was, if it was.
  std::optional<NodeId> Remove(SessionHandle handle);

  // Makes `session`, whose Hello was accepted, the live one of its node. The older one is closed
  // with ABORTED. False when the live one was opened later than `session`: then `session` is closed
  // instead.
  bool MakeLive(AgentSession& session);
  // The live session of a node, or null.
  AgentSession* LiveOf(const NodeId& node);
  // The node whose live session has this id.
  std::optional<NodeId> NodeOf(const std::string& session_id) const;

 private:
  uint64_t last_handle_ = 0;
  absl::flat_hash_map<SessionHandle, std::unique_ptr<AgentSession>> sessions_;
  absl::flat_hash_map<NodeId, AgentSession*> live_;
  absl::flat_hash_map<std::string, NodeId> node_of_session_;
};

}  // namespace muster
