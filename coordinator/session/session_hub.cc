#include "coordinator/session/session_hub.h"

#include <absl/status/status.h>

#include <utility>

namespace muster {

AgentSession& SessionHub::Add(AgentSink* sink, std::optional<NodeId> authenticated) {
  const SessionHandle handle{++last_handle_};
  std::unique_ptr<AgentSession>& session = sessions_[handle];
  session = std::make_unique<AgentSession>(handle, sink, std::move(authenticated));
  return *session;
}

AgentSession* SessionHub::Find(SessionHandle handle) {
  const auto it = sessions_.find(handle);
  return it == sessions_.end() ? nullptr : it->second.get();
}

std::optional<NodeId> SessionHub::Remove(SessionHandle handle) {
  const auto it = sessions_.find(handle);
  if (it == sessions_.end()) return std::nullopt;
  std::optional<NodeId> node;
  const auto live = live_.find(it->second->node());
  if (live != live_.end() && live->second == it->second.get()) {
    node = it->second->node();
    node_of_session_.erase(it->second->session_id());
    live_.erase(live);
  }
  sessions_.erase(it);
  return node;
}

bool SessionHub::MakeLive(AgentSession& session) {
  AgentSession*& live = live_[session.node()];
  if (live != nullptr && live != &session) {
    if (live->handle() > session.handle()) {
      session.Close(absl::AbortedError("a newer session of this node is open"));
      return false;
    }
    node_of_session_.erase(live->session_id());
    live->Close(absl::AbortedError("a newer session of this node replaced this one"));
  }
  live = &session;
  node_of_session_[session.session_id()] = session.node();
  return true;
}

AgentSession* SessionHub::LiveOf(const NodeId& node) {
  const auto it = live_.find(node);
  return it == live_.end() ? nullptr : it->second;
}

std::optional<NodeId> SessionHub::NodeOf(const std::string& session_id) const {
  const auto it = node_of_session_.find(session_id);
  if (it == node_of_session_.end()) return std::nullopt;
  return it->second;
}

}  // namespace muster
