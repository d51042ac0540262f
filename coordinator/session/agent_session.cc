#include "coordinator/session/agent_session.h"

#include <chrono>
#include <utility>

namespace muster {
namespace {

google::protobuf::Timestamp Stamp(WallTime time) {
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch());
  const auto seconds = std::chrono::floor<std::chrono::seconds>(ns);
  google::protobuf::Timestamp stamp;
  stamp.set_seconds(seconds.count());
  stamp.set_nanos(static_cast<int32_t>((ns - seconds).count()));
  return stamp;
}

}  // namespace

void AgentSession::Greet(const v1::Hello& hello, std::string session_id) {
  state_ = State::kGreeting;
  node_ = NodeId(hello.node_id());
  session_id_ = std::move(session_id);
  for (const v1::AttemptReport& report : hello.attempts()) {
    const AttemptId attempt{JobId(report.key().job_id()), report.key().attempt()};
    held_[attempt] = report.generation();
  }
  generations_ = held_;
}

void AgentSession::Open(v1::Welcome welcome, v1::AssignmentSnapshot snapshot) {
  if (state_ != State::kGreeting) return;
  state_ = State::kOpen;
  welcome.set_session_id(session_id_);
  v1::CoordinatorMessage message;
  *message.mutable_welcome() = std::move(welcome);
  Send(std::move(message));
  v1::CoordinatorMessage second;
  *second.mutable_snapshot() = std::move(snapshot);
  Send(std::move(second));
}

bool AgentSession::Wants(const AttemptId& attempt, uint64_t generation) const {
  const auto it = generations_.find(attempt);
  return it == generations_.end() || it->second < generation;
}

void AgentSession::Noted(const AttemptId& attempt, uint64_t generation) {
  generations_[attempt] = generation;
}

void AgentSession::Drop(const AttemptId& attempt) {
  held_.erase(attempt);
  generations_.erase(attempt);
}

void AgentSession::Assign(v1::Assignment assignment) {
  if (!open()) return;
  v1::CoordinatorMessage message;
  *message.mutable_assignment() = std::move(assignment);
  Send(std::move(message));
}

void AgentSession::AckEvents(uint64_t acked_seq) {
  if (!open()) return;
  v1::CoordinatorMessage message;
  message.mutable_event_ack()->set_acked_seq(acked_seq);
  Send(std::move(message));
}

void AgentSession::AckHeartbeat(uint64_t sequence, WallTime now) {
  if (!open()) return;
  v1::CoordinatorMessage message;
  message.mutable_heartbeat_ack()->set_sequence(sequence);
  *message.mutable_heartbeat_ack()->mutable_send_time() = Stamp(now);
  Send(std::move(message));
}

void AgentSession::Signal(v1::SignalRanks signal) {
  if (!open()) return;
  v1::CoordinatorMessage message;
  *message.mutable_signal() = std::move(signal);
  Send(std::move(message));
}

void AgentSession::Check(v1::RunCheck check) {
  if (!open()) return;
  v1::CoordinatorMessage message;
  *message.mutable_run_check() = std::move(check);
  Send(std::move(message));
}

void AgentSession::Close(absl::Status status) {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  if (sink_ != nullptr) sink_->Close(std::move(status));
}

}  // namespace muster
