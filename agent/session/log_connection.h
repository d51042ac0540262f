// Decides when the agent has a log connection: while a session is open and there is something to
// ship, and for a while afterwards. Lives on the loop thread. It knows neither output nor gRPC: the
// shipper says whether there is work, the transport makes and ends the streams.
//
//   session and work       -> Open
//   no work for a while    -> Close; the next work opens anew, at once
//   the stream ended       -> Open after a backoff, if there is work by then
//   the session ended      -> Close; its successor begins from the start
//
// An agent without jobs therefore costs the coordinator one connection, not two.
#pragma once

#include <chrono>
#include <cstdint>

#include "agent/session/backoff.h"
#include "common/base/executor.h"

namespace muster {

// Makes and ends the streams of a LogConnection. Called on the loop thread.
class LogTransport {
 public:
  virtual ~LogTransport() = default;
  // Opens a stream for the newest session. False: that cannot even be tried at present.
  virtual bool Open() = 0;
  // Ends the stream that is open. LogConnection hears no more of it.
  virtual void Close() = 0;
};

class LogConnection {
 public:
  // How long a connection without work stays. A handshake takes the coordinator about a millisecond
  // of its processor and the output one round trip more, so that ranks that write now and then,
  // with every step of a training say, should not cause one each time; a connection that waits
  // takes memory only.
  static constexpr std::chrono::seconds kIdle{60};
  static constexpr Backoff::Options kBackoff{std::chrono::milliseconds(20),
                                             std::chrono::milliseconds(5000)};

  // `executor` and `transport` outlive the connection. `seed` makes the jitter of this agent its
  // own. `idle`: how long a connection without work stays.
  LogConnection(Executor& executor, LogTransport& transport, uint64_t seed, Duration idle = kIdle);
  // Does not close: the transport may be gone in part by then.
  ~LogConnection();
  LogConnection(const LogConnection&) = delete;
  LogConnection& operator=(const LogConnection&) = delete;

  // A session was accepted. A stream of the one before is closed.
  void OnSession();
  void OnSessionLost();
  // There is something to ship, or not any more. Opens at once.
  void OnWork(bool work);
  // The coordinator answered on the stream that is open.
  void OnAnswered();
  // The stream that is open ended, and not by Close.
  void OnEnded();

  bool is_open() const { return open_; }

 private:
  void Act();
  void Dial();
  void Close();
  void Await(Duration delay, void (LogConnection::*then)());

  Executor& executor_;
  LogTransport& transport_;
  const Duration idle_;
  Backoff backoff_;
  bool session_ = false;
  bool work_ = false;
  bool open_ = false;
  // Open: until it is closed, armed while there is no work. Else: until Dial may be tried again.
  Executor::TimerId timer_ = 0;
};

}  // namespace muster
