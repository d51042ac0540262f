// One connection of the join server: TLS handshake, one request, one reply, end. A state machine
// that never blocks; lives on the server's thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/clock.h"
#include "common/crypto/tls_session.h"
#include "common/io/unique_fd.h"
#include "coordinator/trust/ip_address.h"
#include "coordinator/trust/join_handler.h"

namespace muster {

class JoinConnection {
 public:
  // `address`: numeric, of the peer.
  JoinConnection(UniqueFd fd, std::string address, TimePoint deadline)
      : fd_(std::move(fd)),
        address_(std::move(address)),
        owner_(IpOwner(address_)),
        deadline_(deadline) {}

  int fd() const { return fd_.get(); }
  const std::string& address() const { return address_; }
  // IpOwner of it.
  const std::string& owner() const { return owner_; }
  TimePoint deadline() const { return deadline_; }
  // Nothing was received yet, and nothing spent on it.
  bool idle() const { return state_ == State::kIdle; }
  bool over() const { return state_ == State::kOver; }
  // What poll should wait for.
  short events() const { return events_; }

  // Goes on as far as it can; the socket is ready.
  void Step(const TlsContext& context, JoinHandler& handler);
  // Its time is over, or its place is needed.
  void GiveUp(const std::string& why, JoinHandler& handler);

 private:
  enum class State { kIdle, kHandshake, kReading, kWriting, kDraining, kOver };

  // Each returns whether there is more to do at once.
  bool Start(const TlsContext& context, JoinHandler& handler);
  bool Shake(JoinHandler& handler);
  bool Receive(JoinHandler& handler);
  bool Send();
  bool Drain();
  bool Wait(TlsProgress progress);
  bool Fail(const absl::Status& status, JoinHandler& handler);
  bool Reply(std::string message);

  UniqueFd fd_;
  const std::string address_;
  const std::string owner_;
  const TimePoint deadline_;
  State state_ = State::kIdle;
  short events_ = 1;  // POLLIN
  std::optional<TlsSession> session_;
  std::string received_;
  std::string reply_;
  std::string_view unsent_;
  size_t drained_bytes_ = 0;
};

}  // namespace muster
