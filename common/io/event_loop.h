// The event loop of a daemon: one thread, epoll, timers and posted tasks. It owns nothing but its
// registrations. `Post` and `Stop` may be called from any thread; everything else only on the
// thread that is in `Run`, or before `Run` is called. It never blocks except in epoll_wait.
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "common/io/unique_fd.h"

namespace muster {

class EventLoop final : public Executor {
 public:
  // Called with the epoll events that are ready (EPOLLIN, EPOLLOUT, EPOLLHUP, EPOLLERR).
  using FdHandler = std::function<void(uint32_t events)>;

  // Aborts the process when the kernel refuses an epoll or event descriptor: nothing can run
  // without.
  EventLoop();
  ~EventLoop() override;
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Runs until `Stop`. Tasks posted before `Run` run first.
  void Run();
  // Makes `Run` return after the current turn. Thread-safe.
  void Stop();

  // Calls `handler` whenever `events` (level-triggered) are ready on `fd`, until `UnwatchFd`. The
  // caller keeps `fd` open for as long. Watching a watched fd replaces events and handler.
  void WatchFd(int fd, uint32_t events, FdHandler handler);
  // Forgets `fd`. Allowed inside a handler, its own included.
  void UnwatchFd(int fd);

  void Post(Task task) override;
  TimerId PostAfter(Duration delay, Task task) override;
  void Cancel(TimerId timer) override;
  const Clock& clock() const override { return clock_; }

  // True on the thread that runs the loop.
  bool OnLoopThread() const;

 private:
  struct Watch {
    std::shared_ptr<FdHandler> handler;
    uint64_t generation = 0;
  };

  int RunTimers();
  void RunPosted();
  void Wake();

  SystemClock clock_;
  UniqueFd epoll_;
  UniqueFd wake_;
  std::atomic<bool> stop_ = false;
  std::atomic<uint64_t> thread_ = 0;
  std::unordered_map<int, Watch> watches_;
  uint64_t next_generation_ = 1;
  TimerId next_timer_ = 1;
  std::map<std::pair<TimePoint, TimerId>, Task> timers_;
  std::unordered_map<TimerId, TimePoint> timer_times_;
  Mutex mutex_;
  std::vector<Task> posted_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster
