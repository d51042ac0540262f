#include "agent/shim/poller.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace muster::shim {
namespace {

constexpr long long kMaxWaitMs = 60'000;

// An event fetched before its descriptor was closed and reused must not reach the new owner.
uint64_t PackKey(int fd, uint32_t generation) {
  return (uint64_t{generation} << 32) | static_cast<uint32_t>(fd);
}

}  // namespace

bool Poller::Open() {
  epoll_.Reset(::epoll_create1(EPOLL_CLOEXEC));
  return epoll_.valid();
}

bool Poller::Watch(int fd, uint32_t events, Handler handler) {
  if (slots_.size() <= static_cast<size_t>(fd)) slots_.resize(static_cast<size_t>(fd) + 1);
  Slot& slot = slots_[static_cast<size_t>(fd)];
  const uint32_t generation = next_generation_++;
  epoll_event event = {};
  event.events = events;
  event.data.u64 = PackKey(fd, generation);
  if (::epoll_ctl(epoll_.get(), slot.watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) != 0) {
    return false;
  }
  slot.generation = generation;
  slot.watched = true;
  slot.handler = std::move(handler);
  return true;
}

void Poller::Unwatch(int fd) {
  if (fd < 0 || static_cast<size_t>(fd) >= slots_.size()) return;
  Slot& slot = slots_[static_cast<size_t>(fd)];
  if (!slot.watched) return;
  slot.watched = false;
  // The handler itself may be running: it is dropped when the slot is used again.
  slot.generation = 0;
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void Poller::RunOnce(SteadyTime deadline) {
  const auto left = deadline - std::chrono::steady_clock::now();
  // Rounded up, so that the loop does not spin through the last millisecond.
  const long long wait_ms =
      std::clamp<long long>(std::chrono::ceil<milliseconds>(left).count(), 0, kMaxWaitMs);
  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                 static_cast<int>(wait_ms));
  // EINTR, for example by SIGSTOP and SIGCONT: the caller comes again.
  for (int i = 0; i < count; ++i) {
    const auto fd = static_cast<size_t>(static_cast<uint32_t>(events[i].data.u64));
    const auto generation = static_cast<uint32_t>(events[i].data.u64 >> 32);
    if (fd >= slots_.size() || slots_[fd].generation != generation) continue;
    // Moved out while it runs: it may unwatch itself or make `slots_` grow.
    Handler handler = std::move(slots_[fd].handler);
    handler(events[i].events);
    if (slots_[fd].generation == generation) slots_[fd].handler = std::move(handler);
  }
}

}  // namespace muster::shim
