#include "common/io/event_loop.h"

#include <pthread.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace muster {
namespace {

uint64_t ThisThread() { return static_cast<uint64_t>(::pthread_self()); }

[[noreturn]] void Fatal(const char* what) {
  std::perror(what);
  std::abort();
}

// The key that epoll hands back: the descriptor and the generation of its watch, so that an event
// that was fetched before the descriptor was closed and reused is not given to the new owner.
uint64_t PackKey(int fd, uint64_t generation) {
  return (generation << 32) | static_cast<uint32_t>(fd);
}

}  // namespace

EventLoop::EventLoop()
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!epoll_) Fatal("epoll_create1");
  if (!wake_) Fatal("eventfd");
  WatchFd(wake_.get(), EPOLLIN, [this](uint32_t) {
    uint64_t count = 0;
    // EAGAIN means that somebody else's turn consumed the wake-up already.
    (void)!::read(wake_.get(), &count, sizeof(count));
  });
}

EventLoop::~EventLoop() = default;

void EventLoop::Run() {
  thread_ = ThisThread();
  std::array<epoll_event, 64> events;
  while (!stop_) {
    RunPosted();
    const int timeout_ms = RunTimers();
    if (stop_) break;
    bool pending = false;
    {
      MutexLock lock(mutex_);
      pending = !posted_.empty();
    }
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                   pending ? 0 : timeout_ms);
    if (count < 0) {
      if (errno == EINTR) continue;
      Fatal("epoll_wait");
    }
    for (int i = 0; i < count; ++i) {
      const int fd = static_cast<int>(static_cast<uint32_t>(events[i].data.u64));
      const auto it = watches_.find(fd);
      if (it == watches_.end() || PackKey(fd, it->second.generation) != events[i].data.u64)
        continue;
      // Held here: the handler may unwatch itself.
      const std::shared_ptr<FdHandler> handler = it->second.handler;
      (*handler)(events[i].events);
    }
  }
  stop_ = false;
  thread_ = 0;
}

void EventLoop::Stop() {
  stop_ = true;
  Wake();
}

void EventLoop::WatchFd(int fd, uint32_t events, FdHandler handler) {
  const bool known = watches_.contains(fd);
  Watch& watch = watches_[fd];
  watch.handler = std::make_shared<FdHandler>(std::move(handler));
  watch.generation = next_generation_++ & 0xffffffff;
  epoll_event event = {};
  event.events = events;
  event.data.u64 = PackKey(fd, watch.generation);
  if (::epoll_ctl(epoll_.get(), known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) != 0) {
    // The descriptor was closed and reused without UnwatchFd, or the other way round.
    if (::epoll_ctl(epoll_.get(), known ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &event) != 0) {
      Fatal("epoll_ctl");
    }
  }
}

void EventLoop::UnwatchFd(int fd) {
  if (watches_.erase(fd) == 0) return;
  // ENOENT and EBADF: the owner closed it first, which removed it from the set.
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void EventLoop::Post(Task task) {
  bool wake = false;
  {
    MutexLock lock(mutex_);
    wake = posted_.empty();
    posted_.push_back(std::move(task));
  }
  if (wake && !OnLoopThread()) Wake();
}

Executor::TimerId EventLoop::PostAfter(Duration delay, Task task) {
  const TimerId id = next_timer_++;
  const TimePoint when =
      clock_.Now() + std::chrono::duration_cast<TimePoint::duration>(std::max(delay, Duration(0)));
  timers_.emplace(std::make_pair(when, id), std::move(task));
  timer_times_.emplace(id, when);
  return id;
}

void EventLoop::Cancel(TimerId timer) {
  const auto it = timer_times_.find(timer);
  if (it == timer_times_.end()) return;
  timers_.erase({it->second, timer});
  timer_times_.erase(it);
}

bool EventLoop::OnLoopThread() const { return thread_ == ThisThread(); }

// Runs what is due and returns the milliseconds until the next timer, -1 without one.
int EventLoop::RunTimers() {
  const TimePoint now = clock_.Now();
  while (!timers_.empty() && timers_.begin()->first.first <= now && !stop_) {
    auto node = timers_.extract(timers_.begin());
    timer_times_.erase(node.key().second);
    node.mapped()();
  }
  if (timers_.empty()) return -1;
  const auto left = timers_.begin()->first.first - clock_.Now();
  // Rounded up, so that the loop does not spin through the last millisecond.
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::clamp<long long>(ms, 0, 60'000));
}

void EventLoop::RunPosted() {
  std::vector<Task> tasks;
  {
    MutexLock lock(mutex_);
    tasks.swap(posted_);
  }
  for (Task& task : tasks) task();
}

void EventLoop::Wake() {
  const uint64_t one = 1;
  // EAGAIN: the counter is full, so the loop is awake anyway.
  (void)!::write(wake_.get(), &one, sizeof(one));
}

}  // namespace muster
