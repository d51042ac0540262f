#include "agent/session/coordinator_session.h"

#include <fmt/format.h>
#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <chrono>

#include "common/base/version.h"

namespace muster {
namespace {

using google::protobuf::util::TimeUtil;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Until Welcome tells better.
constexpr Duration kGreetingPatience = seconds(10);
constexpr Duration kDefaultHeartbeat = seconds(1);
// A heartbeat more often than this would be a mistake of the coordinator.
constexpr Duration kShortestHeartbeat = milliseconds(10);
// Heartbeats whose answers are awaited; older ones are of no use for the lease.
constexpr size_t kMaxUnanswered = 64;

Duration ToDuration(const google::protobuf::Duration& duration) {
  return std::chrono::nanoseconds(TimeUtil::DurationToNanoseconds(duration));
}

google::protobuf::Timestamp ToTimestamp(WallTime time) {
  return TimeUtil::NanosecondsToTimestamp(
      std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
}

}  // namespace

CoordinatorSession::CoordinatorSession(Executor& executor, Owner& owner)
    : executor_(executor), owner_(owner) {}

CoordinatorSession::~CoordinatorSession() {
  executor_.Cancel(heartbeat_timer_);
  executor_.Cancel(silence_timer_);
}

void CoordinatorSession::OnConnected(AgentSessionSink* sink) {
  if (stage_ != Stage::kIdle) End(absl::AbortedError("a newer connection replaced this one"));
  sink_ = sink;
  stage_ = Stage::kGreeting;
  patience_ = kGreetingPatience;
  next_heartbeat_ = 1;
  unanswered_.clear();
  hello_sent_ = last_heard_ = executor_.clock().Now();
  v1::AgentMessage message;
  *message.mutable_hello() = owner_.MakeHello();
  message.mutable_hello()->mutable_version()->set_major(kProtocolMajor);
  message.mutable_hello()->mutable_version()->set_minor(kProtocolMinor);
  message.mutable_hello()->set_steady_ns(
      static_cast<uint64_t>(std::chrono::nanoseconds(hello_sent_.time_since_epoch()).count()));
  sink_->Send(std::move(message));
  ArmSilence();
}

void CoordinatorSession::OnMessage(const v1::CoordinatorMessage& message) {
  if (stage_ == Stage::kIdle) return;
  last_heard_ = executor_.clock().Now();
  if (message.body_case() == v1::CoordinatorMessage::kWelcome) {
    OnWelcome(message.welcome());
    return;
  }
  if (stage_ != Stage::kOpen) {
    Close(absl::FailedPreconditionError("the coordinator's first message was no welcome"));
    return;
  }
  if (message.body_case() == v1::CoordinatorMessage::kHeartbeatAck) {
    OnHeartbeatAck(message.heartbeat_ack());
    return;
  }
  // A body that this version does not know is none of its business.
  if (message.body_case() == v1::CoordinatorMessage::BODY_NOT_SET) return;
  const absl::Status status = owner_.OnBody(message);
  if (!status.ok()) Close(status);
}

void CoordinatorSession::OnDisconnected(const absl::Status& status) {
  if (stage_ != Stage::kIdle) End(status);
}

bool CoordinatorSession::SendEvents(v1::EventBatch batch) {
  if (stage_ != Stage::kOpen) return false;
  v1::AgentMessage message;
  *message.mutable_events() = std::move(batch);
  sink_->Send(std::move(message));
  return true;
}

void CoordinatorSession::SendReport(v1::CheckReport report) {
  if (stage_ != Stage::kOpen) return;
  v1::AgentMessage message;
  *message.mutable_check_report() = std::move(report);
  sink_->Send(std::move(message));
}

void CoordinatorSession::OnWelcome(const v1::Welcome& welcome) {
  if (stage_ != Stage::kGreeting) {
    Close(absl::FailedPreconditionError("the coordinator said welcome twice"));
    return;
  }
  if (welcome.version().major() != kProtocolMajor) {
    Close(absl::FailedPreconditionError(
        fmt::format("the coordinator speaks protocol {}, this agent {} (install matching versions)",
                    welcome.version().major(), kProtocolMajor)));
    return;
  }
  stage_ = Stage::kOpen;
  const Duration interval = ToDuration(welcome.heartbeat_interval());
  heartbeat_interval_ =
      interval > Duration(0) ? std::max(interval, kShortestHeartbeat) : kDefaultHeartbeat;
  patience_ = std::max(ToDuration(welcome.lease_ttl()) * 3 / 5, 3 * heartbeat_interval_);
  const absl::Status status = owner_.OnWelcome(welcome);
  if (!status.ok()) {
    Close(status);
    return;
  }
  // The coordinator answered Hello, so it knew that this node lived when that was sent.
  fresh_since_ = hello_sent_;
  owner_.OnFresh();
  // At once: hello may have waited long for the connection, and leases count from its making.
  SendHeartbeat();
  ArmHeartbeat();
  ArmSilence();
}

void CoordinatorSession::OnHeartbeatAck(const v1::HeartbeatAck& ack) {
  bool moved = false;
  while (!unanswered_.empty() && unanswered_.front().first <= ack.sequence()) {
    fresh_since_ = std::max(fresh_since_.value_or(TimePoint()), unanswered_.front().second);
    unanswered_.pop_front();
    moved = true;
  }
  if (moved) owner_.OnFresh();
}

void CoordinatorSession::SendHeartbeat() {
  v1::AgentMessage message;
  v1::Heartbeat& heartbeat = *message.mutable_heartbeat();
  heartbeat = owner_.MakeHeartbeat();
  heartbeat.set_sequence(next_heartbeat_);
  *heartbeat.mutable_send_time() = ToTimestamp(executor_.clock().WallNow());
  unanswered_.emplace_back(next_heartbeat_++, executor_.clock().Now());
  if (unanswered_.size() > kMaxUnanswered) unanswered_.pop_front();
  sink_->Send(std::move(message));
}

void CoordinatorSession::ArmHeartbeat() {
  executor_.Cancel(heartbeat_timer_);
  heartbeat_timer_ = executor_.PostAfter(heartbeat_interval_, [this] {
    heartbeat_timer_ = 0;
    SendHeartbeat();
    ArmHeartbeat();
  });
}

void CoordinatorSession::ArmSilence() {
  executor_.Cancel(silence_timer_);
  const Duration left = last_heard_ + patience_ - executor_.clock().Now();
  silence_timer_ = executor_.PostAfter(std::max(left, Duration(milliseconds(1))), [this] {
    silence_timer_ = 0;
    CheckSilence();
  });
}

void CoordinatorSession::CheckSilence() {
  if (executor_.clock().Now() - last_heard_ >= patience_) {
    const auto silence = std::chrono::duration_cast<milliseconds>(patience_);
    Close(absl::UnavailableError(
        fmt::format("the coordinator was silent for {} ms", silence.count())));
    return;
  }
  ArmSilence();
}

void CoordinatorSession::Close(const absl::Status& status) {
  AgentSessionSink* const sink = sink_;
  End(status);
  sink->Close(status);
}

void CoordinatorSession::End(const absl::Status& status) {
  executor_.Cancel(heartbeat_timer_);
  executor_.Cancel(silence_timer_);
  heartbeat_timer_ = silence_timer_ = 0;
  sink_ = nullptr;
  stage_ = Stage::kIdle;
  unanswered_.clear();
  owner_.OnSessionEnded(status);
}

}  // namespace muster
