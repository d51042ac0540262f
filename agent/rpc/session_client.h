// Keeps a Session stream to the coordinator: dials, for ever, with jittered backoff, and passes
// messages between stream and agent core. Everything here lives on the loop thread. It understands
// nothing of what it passes on, and opens a new connection for every attempt, so that no backoff
// but its own is in force.
#pragma once

#include <absl/status/status.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "agent/session/backoff.h"
#include "agent/session/coordinator_session.h"
#include "common/base/executor.h"
#include "common/rpc/channel.h"
#include "muster/v1/agent.pb.h"

namespace muster {

class SessionClient {
 public:
  // What the core hears. See AgentCore::OnConnected, OnMessage, OnDisconnected.
  struct Handlers {
    std::function<void(AgentSessionSink* sink)> connected;
    std::function<void(const v1::CoordinatorMessage&)> message;
    std::function<void(const absl::Status&)> disconnected;
  };
  // The first waits are short, because a local coordinator and its agents start together.
  static constexpr Backoff::Options kBackoff{std::chrono::milliseconds(20),
                                             std::chrono::milliseconds(5000)};

  // `seed` makes the jitter of this agent its own. `executor` outlives the client.
  SessionClient(Executor& executor, Dialer dialer, uint64_t seed, Handlers handlers);
  // Blocks until gRPC is done with the stream, a moment after it was cancelled.
  ~SessionClient();
  SessionClient(const SessionClient&) = delete;
  SessionClient& operator=(const SessionClient&) = delete;

  // Dials now. Once.
  void Start();
  // Ends the stream that there is and dials again, a moment later: with what is known then of the
  // way and of the credentials.
  void Redial();
  // Ends the stream and dials no more.
  void Stop();

 private:
  class Stream;

  void Dial();
  void DialLater(std::chrono::milliseconds wait);
  void OnMessage(const v1::CoordinatorMessage& message);
  void OnEnded(const absl::Status& status);

  Executor& executor_;
  const Dialer dialer_;
  const Handlers handlers_;
  Backoff backoff_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<Stream> stream_;
  Executor::TimerId timer_ = 0;
  bool stopped_ = false;
};

// True for endings that dialling again soon does not mend: refused credentials, another version, a
// newer session of the same node.
bool IsLastingRefusal(const absl::Status& status);

}  // namespace muster
