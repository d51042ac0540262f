// The agent's side of one session with the coordinator, without the transport: order of messages,
// version and epoch, heartbeats, and how fresh the last word of the coordinator is. It outlives
// connections: OnConnected begins a new one. Lives on the loop thread.
//
//   idle --OnConnected--> greeting (Hello sent) --Welcome--> open --OnDisconnected/Close--> idle
//
// Failure rules: anything before Welcome, a second Welcome, another major version or a message of
// the Owner's refusal closes the connection with FAILED_PRECONDITION. Silence for three fifths of a
// lease (at least three heartbeats) closes it with UNAVAILABLE: a half-open connection must not
// look like a live one, and a new one must be made before the lease runs out.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/base/executor.h"
#include "muster/v1/agent.pb.h"

namespace muster {

// The transport's end of one Session stream. Owned by the transport.
class AgentSessionSink {
 public:
  virtual ~AgentSessionSink() = default;
  // Queues one message. Messages arrive in order, or the stream ends.
  virtual void Send(v1::AgentMessage message) = 0;
  // Ends the stream. The core does not use the sink afterwards. UNAVAILABLE: dial again with
  // backoff; FAILED_PRECONDITION: dial again, but no faster than the longest backoff.
  virtual void Close(absl::Status status) = 0;
};

class CoordinatorSession {
 public:
  // Gives and takes what the session carries. Called from inside the session's methods.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual v1::Hello MakeHello() = 0;
    // `sequence` and `send_time` are filled by the session.
    virtual v1::Heartbeat MakeHeartbeat() = 0;
    // Major version was checked. An error refuses the coordinator and closes the connection with
    // it.
    virtual absl::Status OnWelcome(const v1::Welcome& welcome) = 0;
    // Every later message but heartbeat acknowledgements. An error closes the connection with it.
    virtual absl::Status OnBody(const v1::CoordinatorMessage& message) = 0;
    // fresh_since() moved.
    virtual void OnFresh() = 0;
    // The connection ended, for whatever reason. Called once for every OnConnected.
    virtual void OnSessionEnded(const absl::Status& status) = 0;
  };

  // Both outlive the session.
  CoordinatorSession(Executor& executor, Owner& owner);
  ~CoordinatorSession();
  CoordinatorSession(const CoordinatorSession&) = delete;
  CoordinatorSession& operator=(const CoordinatorSession&) = delete;

  void OnConnected(AgentSessionSink* sink);
  void OnMessage(const v1::CoordinatorMessage& message);
  void OnDisconnected(const absl::Status& status);

  // Sends events on an open session; false when there is none.
  bool SendEvents(v1::EventBatch batch);
  // Sends the answer to a check on an open session; without one nobody wants it any more.
  void SendReport(v1::CheckReport report);
  // True between Welcome and the end of the connection.
  bool open() const { return stage_ == Stage::kOpen; }
  // Since when the coordinator is known to know that this node lives: the moment when the newest
  // message that it answered was sent. Nothing before the first Welcome.
  std::optional<TimePoint> fresh_since() const { return fresh_since_; }

 private:
  enum class Stage { kIdle, kGreeting, kOpen };

  void OnWelcome(const v1::Welcome& welcome);
  void OnHeartbeatAck(const v1::HeartbeatAck& ack);
  void SendHeartbeat();
  void ArmHeartbeat();
  void ArmSilence();
  void CheckSilence();
  // Closes the sink, if there is one, and tells the owner.
  void Close(const absl::Status& status);
  void End(const absl::Status& status);

  Executor& executor_;
  Owner& owner_;
  AgentSessionSink* sink_ = nullptr;
  Stage stage_ = Stage::kIdle;
  Duration heartbeat_interval_{0};
  // Silence that ends the connection.
  Duration patience_{0};
  TimePoint hello_sent_;
  TimePoint last_heard_;
  std::optional<TimePoint> fresh_since_;
  uint64_t next_heartbeat_ = 1;
  // Heartbeats that were not answered yet, with the time when they were sent; bounded.
  std::deque<std::pair<uint64_t, TimePoint>> unanswered_;
  Executor::TimerId heartbeat_timer_ = 0;
  Executor::TimerId silence_timer_ = 0;
};

}  // namespace muster
