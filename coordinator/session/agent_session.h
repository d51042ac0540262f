// The coordinator's side of one agent's Session stream.
//
// Messages:   <- Hello, once, first                -> Welcome, AssignmentSnapshot
//             <- Heartbeat                         -> HeartbeatAck
//             <- EventBatch                        -> EventAck, once they are stored
//                                                  -> Assignment, whenever it changes; SignalRanks
// Life:       connected -> greeting (Hello taken, being stored) -> open -> closed
// Failures:   a message out of place closes with INVALID_ARGUMENT, a gap with FAILED_PRECONDITION,
// a
//             newer session of the node with ABORTED. A closed session sends nothing and hears
//             nothing.
//
// Knows which generation of each assignment the agent has, so that each is sent once per session
// and only if it is newer. Lives on the loop thread.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "coordinator/session/agent_sink.h"
#include "muster/v1/agent.pb.h"

namespace muster {

class AgentSession {
 public:
  enum class State { kConnected, kGreeting, kOpen, kClosed };

  // `sink` stays valid until Detach.
  AgentSession(SessionHandle handle, AgentSink* sink, std::optional<NodeId> authenticated)
      : handle_(handle), sink_(sink), authenticated_(std::move(authenticated)) {}

  SessionHandle handle() const { return handle_; }
  State state() const { return state_; }
  // Accepted, and the stream is still there.
  bool open() const { return state_ == State::kOpen && sink_ != nullptr; }
  bool closed() const { return state_ == State::kClosed; }
  // Empty before Hello.
  const NodeId& node() const { return node_; }
  const std::string& session_id() const { return session_id_; }
  const std::optional<NodeId>& authenticated() const { return authenticated_; }

  // Takes a Hello that was checked: the agent has these generations.
  void Greet(const v1::Hello& hello, std::string session_id);
  // True when the agent's Hello named the attempt.
  bool HeldAtHello(const AttemptId& attempt) const { return held_.contains(attempt); }
  // The attempts that Hello named.
  const absl::flat_hash_map<AttemptId, uint64_t>& held() const { return held_; }

  // Accepts: sends `welcome` (completed with the session id) and the snapshot.
  void Open(v1::Welcome welcome, v1::AssignmentSnapshot snapshot);
  // True when the agent has the attempt, or will have it.
  bool Knows(const AttemptId& attempt) const { return generations_.contains(attempt); }
  // True when the agent does not have this generation yet.
  bool Wants(const AttemptId& attempt, uint64_t generation) const;
  // Notes that it will be sent.
  void Noted(const AttemptId& attempt, uint64_t generation);
  // Forgets a released attempt.
  void Drop(const AttemptId& attempt);

  // The following do nothing unless the session is open.
  void Assign(v1::Assignment assignment);
  void AckEvents(uint64_t acked_seq);
  void AckHeartbeat(uint64_t sequence, WallTime now);
  void Signal(v1::SignalRanks signal);
  void Check(v1::RunCheck check);

  // Ends the stream, once.
  void Close(absl::Status status);
  // The stream is over: the sink is forgotten. What was received before still counts.
  void Detach() { sink_ = nullptr; }

 private:
  void Send(v1::CoordinatorMessage message) {
    if (sink_ != nullptr) sink_->Send(std::move(message));
  }

  const SessionHandle handle_;
  AgentSink* sink_;
  const std::optional<NodeId> authenticated_;
  State state_ = State::kConnected;
  NodeId node_;
  std::string session_id_;
  absl::flat_hash_map<AttemptId, uint64_t> held_;
  // Generations that the agent has or was sent.
  absl::flat_hash_map<AttemptId, uint64_t> generations_;
};

}  // namespace muster
