// Tries whether TCP connections can be made. Every connection is on the event loop and ended as
// soon as it is there; nothing blocks, and nothing is sent. Lives on the loop thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/io/event_loop.h"

namespace muster {

class TcpProbe {
 public:
  // Empty: a connection was made. Otherwise why not, for example "connection refused".
  using Done = std::function<void(std::string error)>;

  // `loop` outlives it.
  explicit TcpProbe(EventLoop& loop) : loop_(loop) {}
  // What is not answered yet never is.
  ~TcpProbe();
  TcpProbe(const TcpProbe&) = delete;
  TcpProbe& operator=(const TcpProbe&) = delete;

  // Tries `port` of one numeric address, for `limit` at most. `done` runs later and once.
  void Try(const std::string& address, uint32_t port, std::chrono::milliseconds limit, Done done);

 private:
  struct Attempt;

  void Finish(const std::shared_ptr<Attempt>& attempt, std::string error);

  EventLoop& loop_;
  std::set<std::shared_ptr<Attempt>> attempts_;
  // Posted tasks look here whether this object still lives.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

// A numeric address in the form that the kernel prints; empty when it is none.
std::string CanonicalAddress(const std::string& text);

}  // namespace muster
