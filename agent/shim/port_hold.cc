#include "agent/shim/port_hold.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "agent/shim/text.h"

namespace muster::shim {
namespace {

// Connections that wait while the shim does something else. As many as nodes may try at a time.
constexpr int kBacklog = 1024;
// Connections ended in one turn of the loop: a flood must not keep it from anything else.
constexpr int kMostPerTurn = 64;
constexpr milliseconds kPause{100};

// Ends a connection so that nothing of it is left, not even in TIME_WAIT.
void EndWithReset(UniqueFd connection) {
  const linger now = {.l_onoff = 1, .l_linger = 0};
  (void)::setsockopt(connection.get(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

}  // namespace

UniqueFd BindEverywhere(int family, uint16_t port, std::string& reason) {
  reason.clear();
  UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) {
    // A machine without this family.
    if (errno != EAFNOSUPPORT) reason = ErrnoText(errno);
    return fd;
  }
  const int on = 1;
  // As every server does: connections that are winding down do not keep a port.
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  int result = 0;
  if (family == AF_INET6) {
    (void)::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    sockaddr_in6 address = {};
    address.sin6_family = AF_INET6;
    address.sin6_addr = in6addr_any;
    address.sin6_port = htons(port);
    result = ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  } else {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    address.sin_port = htons(port);
    result = ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  }
  if (result == 0) return fd;
  const int error = errno;
  fd.Reset();
  // IPv6 that is switched off.
  if (family == AF_INET6 && error == EADDRNOTAVAIL) return fd;
  reason = ErrnoText(error);
  return fd;
}

bool PortHold::Take(uint16_t port, std::string& reason) {
  Release();
  for (size_t i = 0; i < sockets_.size(); ++i) {
    sockets_[i] = BindEverywhere(i == 0 ? AF_INET : AF_INET6, port, reason);
    const bool listens = !sockets_[i] || ::listen(sockets_[i].get(), kBacklog) == 0;
    if (!listens) reason = ErrnoText(errno);
    if (!reason.empty()) {
      Release();
      return false;
    }
  }
  return true;
}

void PortHold::Answer() {
  resume_at_.reset();
  for (const UniqueFd& socket : sockets_) {
    if (!socket) continue;
    const int fd = socket.get();
    // Where it fails the kernel still completes connections, up to its queue.
    (void)poller_.Watch(fd, EPOLLIN, [this, fd](uint32_t) { OnReadable(fd); });
  }
}

void PortHold::OnReadable(int listener) {
  for (int i = 0; i < kMostPerTurn; ++i) {
    UniqueFd connection(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (connection) {
      EndWithReset(std::move(connection));
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return;
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      // It would be told again at once, for ever.
      for (const UniqueFd& socket : sockets_) poller_.Unwatch(socket.get());
      resume_at_ = std::chrono::steady_clock::now() + kPause;
      return;
    }
    // Of one connection only: it was given up before it was accepted.
  }
}

void PortHold::OnTime(SteadyTime now) {
  if (resume_at_ && now >= *resume_at_) Answer();
}

void PortHold::Release() {
  resume_at_.reset();
  for (UniqueFd& socket : sockets_) {
    if (!socket) continue;
    poller_.Unwatch(socket.get());
    socket.Reset();
  }
}

}  // namespace muster::shim
