#include "coordinator/cli/output.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <string>

namespace muster {
namespace {

// The kernel's default of 64 KiB costs a context switch for every 64 KiB of output.
constexpr int kPipeBytes = 1 << 20;

}  // namespace

Output::Output(int fd) : fd_(fd), is_terminal_(::isatty(fd) == 1) {
  struct stat info = {};
  if (::fstat(fd, &info) != 0) {
    error_ = errno;
    return;
  }
  if (S_ISSOCK(info.st_mode)) {
    kind_ = Kind::kSocket;
  } else if (S_ISFIFO(info.st_mode) || is_terminal_) {
    const std::string path = "/proc/self/fd/" + std::to_string(fd);
    own_.Reset(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    // Not allowed for another user's terminal, or a pipe without a reader.
    kind_ = own_ ? Kind::kOwn : Kind::kPolite;
    // Refused above the user's limit: the pipe then stays as it is.
    if (S_ISFIFO(info.st_mode)) (void)::fcntl(fd, F_SETPIPE_SZ, kPipeBytes);
  } else {
    kind_ = Kind::kPlain;
  }
}

ptrdiff_t Output::Write(std::string_view bytes) {
  if (error_ != 0) return -1;
  for (;;) {
    ssize_t written = 0;
    switch (kind_) {
      case Kind::kPlain:
        written = ::write(fd_, bytes.data(), bytes.size());
        break;
      case Kind::kOwn:
        written = ::write(own_.get(), bytes.data(), bytes.size());
        break;
      case Kind::kSocket:
        written = ::send(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        break;
      case Kind::kPolite: {
        pollfd ready = {fd_, POLLOUT, 0};
        if (::poll(&ready, 1, 0) == 0) return 0;
        written = ::write(fd_, bytes.data(), std::min<size_t>(bytes.size(), PIPE_BUF));
        break;
      }
    }
    if (written >= 0) return written;
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
    error_ = errno;
    return -1;
  }
}

bool Output::Wait(int wake_fd, std::chrono::milliseconds limit) {
  pollfd ready[2] = {{own_ ? own_.get() : fd_, POLLOUT, 0}, {wake_fd, POLLIN, 0}};
  const int count = ::poll(ready, wake_fd >= 0 ? 2 : 1, static_cast<int>(limit.count()));
  // EINTR: the caller's loop comes back here anyway.
  return count > 0 && ready[0].revents != 0;
}

bool WantsColour(int fd) {
  // The convention of no-color.org: set and not empty.
  const char* no_colour = std::getenv("NO_COLOR");
  if (no_colour != nullptr && *no_colour != '\0') return false;
  const char* terminal = std::getenv("TERM");
  if (terminal == nullptr || std::strcmp(terminal, "dumb") == 0) return false;
  return ::isatty(fd) == 1;
}

}  // namespace muster
