#include "common/io/service_notify.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <charconv>
#include <cstddef>
#include <cstring>
#include <utility>

#include "common/io/unique_fd.h"

namespace muster {

ServiceNotify::Manager ServiceNotify::TakenFrom(const std::vector<std::string>& environment) {
  Manager manager;
  for (const std::string& one : environment) {
    constexpr std::string_view kSocket = "NOTIFY_SOCKET=";
    constexpr std::string_view kWatchdog = "WATCHDOG_USEC=";
    if (one.starts_with(kSocket)) manager.socket = one.substr(kSocket.size());
    if (!one.starts_with(kWatchdog)) continue;
    uint64_t microseconds = 0;
    const auto result =
        std::from_chars(one.data() + kWatchdog.size(), one.data() + one.size(), microseconds);
    if (result.ec == std::errc()) manager.watchdog = std::chrono::microseconds(microseconds);
  }
  return manager;
}

ServiceNotify::ServiceNotify(Executor& executor, Manager manager)
    : executor_(executor), socket_(std::move(manager.socket)), watchdog_(manager.watchdog) {}

ServiceNotify::~ServiceNotify() { executor_.Cancel(timer_); }

void ServiceNotify::Ready() {
  Send("READY=1");
  if (!socket_.empty() && watchdog_.count() > 0) FeedWatchdog();
}

void ServiceNotify::Stopping() { Send("STOPPING=1"); }

void ServiceNotify::FeedWatchdog() {
  Send("WATCHDOG=1");
  // Twice as often as asked for, as the protocol advises.
  timer_ = executor_.PostAfter(watchdog_ / 2, [this] { FeedWatchdog(); });
}

// Losing a notification is not worth failing for: the manager tries again what it misses.
void ServiceNotify::Send(std::string_view text) const {
  sockaddr_un address = {};
  if (socket_.empty() || socket_.size() >= sizeof(address.sun_path)) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  // An abstract address begins with NUL, written as @.
  if (socket_.front() == '@') address.sun_path[0] = '\0';
  const UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return;
  (void)::sendto(fd.get(), text.data(), text.size(), MSG_NOSIGNAL,
                 reinterpret_cast<const sockaddr*>(&address),
                 static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size()));
}

}  // namespace muster
