#include "common/io/service_notify.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "common/io/unique_fd.h"

namespace muster {
namespace {

constexpr std::chrono::seconds kStatusInterval{2};
constexpr std::chrono::milliseconds kReadyAgain{100};

// The number behind `prefix`; nothing when the string is another variable or holds no number.
std::optional<uint64_t> NumberBehind(std::string_view prefix, std::string_view variable) {
  if (!variable.starts_with(prefix)) return std::nullopt;
  variable.remove_prefix(prefix.size());
  uint64_t number = 0;
  const char* const end = variable.data() + variable.size();
  const auto result = std::from_chars(variable.data(), end, number);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return number;
}

}  // namespace

ServiceNotify::Manager ServiceNotify::TakenFrom(const std::vector<std::string>& environment,
                                                int pid) {
  Manager manager;
  for (const std::string& one : environment) {
    constexpr std::string_view kSocket = "NOTIFY_SOCKET=";
    if (one.starts_with(kSocket)) manager.socket = one.substr(kSocket.size());
    if (const auto usec = NumberBehind("WATCHDOG_USEC=", one)) {
      manager.watchdog = std::chrono::microseconds(*usec);
    }
    const std::optional<uint64_t> meant = NumberBehind("WATCHDOG_PID=", one);
    if (meant.has_value() && *meant != static_cast<uint64_t>(pid)) return {};
  }
  return manager;
}

ServiceNotify::ServiceNotify(Executor& executor, Manager manager)
    : executor_(executor), socket_(std::move(manager.socket)), watchdog_(manager.watchdog) {}

ServiceNotify::~ServiceNotify() {
  executor_.Cancel(ready_timer_);
  executor_.Cancel(watchdog_timer_);
  executor_.Cancel(status_timer_);
}

void ServiceNotify::Ready(std::function<std::string()> status) {
  if (socket_.empty()) return;
  status_ = std::move(status);
  TellReady();
  if (watchdog_.count() > 0) FeedWatchdog();
  TellStatus();
}

// Without this word the manager would give the daemon up as one that does not start.
void ServiceNotify::TellReady() {
  if (!Send("READY=1")) ready_timer_ = executor_.PostAfter(kReadyAgain, [this] { TellReady(); });
}

void ServiceNotify::Stopping() { (void)Send("STOPPING=1"); }

void ServiceNotify::FeedWatchdog() {
  // Twice as often as asked for, as the protocol advises: one may be lost.
  (void)Send("WATCHDOG=1");
  watchdog_timer_ = executor_.PostAfter(watchdog_ / 2, [this] { FeedWatchdog(); });
}

void ServiceNotify::TellStatus() {
  std::string status = status_();
  // A newline would begin another assignment.
  std::replace(status.begin(), status.end(), '\n', ' ');
  if (status != told_ && Send("STATUS=" + status)) told_ = std::move(status);
  status_timer_ = executor_.PostAfter(kStatusInterval, [this] { TellStatus(); });
}

bool ServiceNotify::Send(std::string_view text) const {
  sockaddr_un address = {};
  if (socket_.empty() || socket_.size() >= sizeof(address.sun_path)) return true;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  // An abstract address begins with NUL, written as @.
  if (socket_.front() == '@') address.sun_path[0] = '\0';
  const UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return false;
  return ::sendto(fd.get(), text.data(), text.size(), MSG_NOSIGNAL,
                  reinterpret_cast<const sockaddr*>(&address),
                  static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size())) >= 0;
}

}  // namespace muster
