// A TCP port that is held: from when it was reserved until the ranks start the shim listens on it,
// on every address of the node, so that nobody else takes it and other nodes can try whether they
// reach it. Connections are accepted and ended at once, with a reset, which leaves nothing behind
// that would keep a rank from binding the port. Never inherited, never blocks, and holds no
// connection. Lives on the shim's only thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "agent/shim/poller.h"
#include "common/io/unique_fd.h"

namespace muster::shim {

class PortHold {
 public:
  explicit PortHold(Poller& poller) : poller_(poller) {}
  ~PortHold() { Release(); }
  PortHold(const PortHold&) = delete;
  PortHold& operator=(const PortHold&) = delete;

  // Listens on `port` by IPv4 and, where there is any, by IPv6. False, with the reason, when that
  // cannot be; then nothing is held.
  bool Take(uint16_t port, std::string& reason);
  // Begins to answer. Until then the kernel does, for as many as wait in its queue.
  void Answer();
  // The port is free from here on.
  void Release();
  bool held() const { return sockets_[0] || sockets_[1]; }

  // When to call OnTime; nothing: no need to.
  std::optional<SteadyTime> deadline() const { return resume_at_; }
  void OnTime(SteadyTime now);

 private:
  void OnReadable(int listener);

  Poller& poller_;
  // IPv4 and IPv6.
  std::array<UniqueFd, 2> sockets_;
  // No connection can be accepted until then: the kernel is short of something.
  std::optional<SteadyTime> resume_at_;
};

// A socket that is bound to `port` on every local address of `family`. Without one and with an
// empty `reason` the machine does not have this family.
UniqueFd BindEverywhere(int family, uint16_t port, std::string& reason);

}  // namespace muster::shim
