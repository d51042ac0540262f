#include "agent/node/tcp_probe.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

#include "common/base/executor.h"
#include "common/io/unique_fd.h"

namespace muster {
namespace {

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

std::optional<SocketAddress> ParseAddress(const std::string& text, uint16_t port) {
  SocketAddress address;
  auto& v4 = reinterpret_cast<sockaddr_in&>(address.storage);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(address.storage);
  if (::inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    address.length = sizeof(v4);
    return address;
  }
  address.storage = {};
  if (::inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    address.length = sizeof(v6);
    return address;
  }
  return std::nullopt;
}

std::string TextOf(int error) {
  switch (error) {
    case ECONNREFUSED:
      return "connection refused";
    case EHOSTUNREACH:
      return "no route to host";
    case ENETUNREACH:
      return "network is unreachable";
    case ETIMEDOUT:
      return "no answer";
    default:
      return std::generic_category().message(error);
  }
}

// A port of the range that connections get theirs from may meet itself when nobody listens.
bool IsConnectedToItself(int fd) {
  sockaddr_storage here = {};
  sockaddr_storage there = {};
  socklen_t here_length = sizeof(here);
  socklen_t there_length = sizeof(there);
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(&here), &here_length) == 0 &&
         ::getpeername(fd, reinterpret_cast<sockaddr*>(&there), &there_length) == 0 &&
         here_length == there_length && std::memcmp(&here, &there, here_length) == 0;
}

}  // namespace

struct TcpProbe::Attempt {
  UniqueFd fd;
  Executor::TimerId timer = 0;
  Done done;
};

TcpProbe::~TcpProbe() {
  for (const auto& attempt : attempts_) {
    loop_.Cancel(attempt->timer);
    if (attempt->fd) loop_.UnwatchFd(attempt->fd.get());
  }
}

void TcpProbe::Try(const std::string& address, uint32_t port, std::chrono::milliseconds limit,
                   Done done) {
  const auto attempt = std::make_shared<Attempt>();
  attempt->done = std::move(done);
  attempts_.insert(attempt);
  const auto later = [&](std::string error) {
    loop_.Post([this, attempt, error = std::move(error), alive = std::weak_ptr<int>(alive_)] {
      if (!alive.expired()) Finish(attempt, error);
    });
  };
  if (port == 0 || port > 65535) return later(fmt::format("{} is no port", port));
  const std::optional<SocketAddress> target = ParseAddress(address, static_cast<uint16_t>(port));
  if (!target) return later("not a numeric address");
  attempt->fd.Reset(
      ::socket(target->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!attempt->fd) return later(TextOf(errno));
  const int fd = attempt->fd.get();
  // Ended with a reset: nothing of it is left on either side.
  const linger now = {.l_onoff = 1, .l_linger = 0};
  (void)::setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  if (::connect(fd, target->get(), target->length) == 0) {
    return later(IsConnectedToItself(fd) ? TextOf(ECONNREFUSED) : "");
  }
  if (errno != EINPROGRESS && errno != EINTR) return later(TextOf(errno));
  attempt->timer = loop_.PostAfter(limit, [this, attempt, limit] {
    Finish(attempt,
           fmt::format("no answer within {:g} s", std::chrono::duration<double>(limit).count()));
  });
  loop_.WatchFd(fd, EPOLLOUT, [this, attempt, fd](uint32_t) {
    int error = 0;
    socklen_t length = sizeof(error);
    if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
    // Who listens there ends connections at once, with a reset, and that may be quicker than this.
    // A reset instead of a connection is told as ECONNREFUSED.
    if (error == ECONNRESET) error = 0;
    if (error == 0 && IsConnectedToItself(fd)) error = ECONNREFUSED;
    Finish(attempt, error == 0 ? "" : TextOf(error));
  });
}

void TcpProbe::Finish(const std::shared_ptr<Attempt>& attempt, std::string error) {
  const std::shared_ptr<Attempt> keep = attempt;
  if (attempts_.erase(keep) == 0) return;
  loop_.Cancel(keep->timer);
  if (keep->fd) loop_.UnwatchFd(keep->fd.get());
  keep->fd.Reset();
  std::exchange(keep->done, nullptr)(std::move(error));
}

std::string CanonicalAddress(const std::string& text) {
  std::array<char, INET6_ADDRSTRLEN> out = {};
  in_addr v4 = {};
  in6_addr v6 = {};
  if (::inet_pton(AF_INET, text.c_str(), &v4) == 1) {
    ::inet_ntop(AF_INET, &v4, out.data(), out.size());
  } else if (::inet_pton(AF_INET6, text.c_str(), &v6) == 1) {
    ::inet_ntop(AF_INET6, &v6, out.data(), out.size());
  }
  return out.data();
}

}  // namespace muster
