// Accepts the connections of a listening socket on the loop. The project's own because a listener
// of gRPC 1.51 is deaf for ever after it once ran out of file descriptors. Lives on the loop
// thread; never blocks.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "common/base/rate_limit.h"
#include "common/io/event_loop.h"
#include "common/io/unique_fd.h"

namespace muster {

class ConnectionAcceptor {
 public:
  // Takes a connection: non-blocking, close-on-exec.
  using OnConnection = std::function<void(UniqueFd connection)>;

  // `name`: of the socket, for messages.
  explicit ConnectionAcceptor(std::string name);
  // Stops accepting. Connections that were taken go on.
  ~ConnectionAcceptor();
  ConnectionAcceptor(const ConnectionAcceptor&) = delete;
  ConnectionAcceptor& operator=(const ConnectionAcceptor&) = delete;

  // Accepts from `listener`, which is open until the next call, or the end. `loop` outlives this
  // object.
  void Begin(EventLoop& loop, int listener, OnConnection on_connection);

 private:
  void End();
  void AcceptAll();
  void OutOfDescriptors(int error_number);

  const std::string name_;
  // Kept so that a connection can still be taken, and closed, when descriptors have run out: its
  // peer would otherwise wait for ever, and the loop would spin.
  UniqueFd reserve_;
  EventLoop* loop_ = nullptr;
  int listener_ = -1;
  OnConnection on_connection_;
  RateLimit told_{1, std::chrono::seconds(10)};
};

}  // namespace muster
