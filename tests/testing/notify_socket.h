// Plays a service manager: a socket that takes what daemons say by systemd's notification protocol.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "common/io/unique_fd.h"

namespace muster::testing {

class NotifySocket {
 public:
  explicit NotifySocket(const std::string& path)
      : fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    EXPECT_LT(path.size(), sizeof(address.sun_path));
    std::memcpy(address.sun_path, path.data(), path.size());
    EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }

  // Everything that was said so far, in order.
  const std::vector<std::string>& Heard() {
    while (Take(std::chrono::milliseconds(0))) {
    }
    return heard_;
  }
  // Waits until something was said, or the limit.
  bool WaitFor(const std::function<bool(const std::string&)>& wanted,
               std::chrono::milliseconds limit = std::chrono::seconds(30)) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    for (size_t next = 0;;) {
      for (; next < heard_.size(); ++next) {
        if (wanted(heard_[next])) return true;
      }
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          deadline - std::chrono::steady_clock::now());
      if (left.count() <= 0) return false;
      Take(left);
    }
  }
  bool WaitFor(const std::string& text) {
    return WaitFor([&](const std::string& one) { return one == text; });
  }
  void Forget() {
    Heard();
    heard_.clear();
  }

 private:
  bool Take(std::chrono::milliseconds limit) {
    pollfd wait = {fd_.get(), POLLIN, 0};
    if (::poll(&wait, 1, static_cast<int>(limit.count())) <= 0) return false;
    char buffer[4096];
    const ssize_t got = ::recv(fd_.get(), buffer, sizeof(buffer), 0);
    if (got < 0) return false;
    heard_.emplace_back(buffer, static_cast<size_t>(got));
    return true;
  }

  UniqueFd fd_;
  std::vector<std::string> heard_;
};

}  // namespace muster::testing
