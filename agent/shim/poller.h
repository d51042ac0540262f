// Waits for descriptors and calls their handlers. Owns the epoll descriptor and nothing else; lives
// on the shim's only thread; never blocks longer than it is told to.
#pragma once

#include <sys/epoll.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "common/io/unique_fd.h"

namespace muster::shim {

// Steady time; the shim measures every interval with it.
using SteadyTime = std::chrono::steady_clock::time_point;
using std::chrono::milliseconds;

class Poller {
 public:
  // Called with the epoll events that are ready.
  using Handler = std::function<void(uint32_t events)>;

  // False: the kernel gave no epoll descriptor, and nothing can run.
  [[nodiscard]] bool Open();

  // Calls `handler` whenever `events` (level-triggered) are ready on `fd`. Replaces an earlier
  // watch. False when the kernel refuses (no memory, limit of watches).
  [[nodiscard]] bool Watch(int fd, uint32_t events, Handler handler);
  // Forgets `fd`; call before closing it. Allowed inside a handler, its own included.
  void Unwatch(int fd);

  // Waits until something is ready or `deadline` has passed, and runs the handlers that are due.
  void RunOnce(SteadyTime deadline);

 private:
  struct Slot {
    uint32_t generation = 0;
    bool watched = false;
    Handler handler;
  };

  UniqueFd epoll_;
  uint32_t next_generation_ = 1;
  // Indexed by descriptor.
  std::vector<Slot> slots_;
};

}  // namespace muster::shim
