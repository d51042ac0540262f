#include "tests/testing/relay/relay_socket.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

namespace muster::testing {
namespace {

struct SocketAddress {
  union {
    sockaddr any;
    sockaddr_un local;
    sockaddr_in inet;
  };
  socklen_t length = 0;
};

void Fail(const std::string& what, int error) {
  ADD_FAILURE() << what << ": " << std::generic_category().message(error);
}

SocketAddress Parse(const std::string& text) {
  SocketAddress address = {};
  if (text.starts_with("unix:")) {
    const std::string path = text.substr(5);
    if (path.size() >= sizeof(address.local.sun_path)) Fail(text, ENAMETOOLONG);
    address.local.sun_family = AF_UNIX;
    path.copy(address.local.sun_path, sizeof(address.local.sun_path) - 1);
    address.length = sizeof(address.local);
    return address;
  }
  const size_t colon = text.rfind(':');
  address.inet.sin_family = AF_INET;
  address.length = sizeof(address.inet);
  if (colon == std::string::npos ||
      ::inet_pton(AF_INET, text.substr(0, colon).c_str(), &address.inet.sin_addr) != 1) {
    Fail(text, EINVAL);
  }
  address.inet.sin_port = htons(static_cast<uint16_t>(std::atoi(text.c_str() + colon + 1)));
  return address;
}

UniqueFd MakeSocket(const SocketAddress& address) {
  UniqueFd fd(::socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  // Delays are the relay's to make.
  if (address.any.sa_family == AF_INET) {
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  return fd;
}

}  // namespace

UniqueFd ListenAt(std::string& address) {
  SocketAddress where = Parse(address);
  UniqueFd fd = MakeSocket(where);
  if (!fd || ::bind(fd.get(), &where.any, where.length) != 0 || ::listen(fd.get(), 128) != 0) {
    Fail("listen on " + address, errno);
  }
  if (where.any.sa_family == AF_INET) {
    if (::getsockname(fd.get(), &where.any, &where.length) != 0) Fail("getsockname", errno);
    address = address.substr(0, address.rfind(':') + 1);
    address += std::to_string(ntohs(where.inet.sin_port));
  }
  return fd;
}

UniqueFd ConnectTo(const std::string& address) {
  const SocketAddress where = Parse(address);
  UniqueFd fd = MakeSocket(where);
  if (fd && ::connect(fd.get(), &where.any, where.length) != 0 && errno != EINPROGRESS) fd.Reset();
  return fd;
}

void ResetAtClose(int fd) {
  // Only TCP has an opinion on it.
  const linger now = {1, 0};
  (void)::setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

}  // namespace muster::testing
