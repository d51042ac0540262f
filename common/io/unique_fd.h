// Owns one file descriptor and closes it once. Not thread-safe; move-only.
#pragma once

#include <unistd.h>

#include <utility>

namespace muster {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) Reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~UniqueFd() { Reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  explicit operator bool() const { return valid(); }
  // Gives the descriptor away.
  int Release() { return std::exchange(fd_, -1); }
  // Closes what is held, if anything, and holds `fd`.
  void Reset(int fd = -1) {
    // close() must not be tried again after EINTR on Linux: the descriptor is gone either way.
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace muster
