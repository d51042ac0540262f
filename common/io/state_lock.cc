#include "common/io/state_lock.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>

#include "common/base/annotate.h"

namespace muster {
namespace {

using Clock = std::chrono::steady_clock;

// Interrupts blocking calls of this thread now and then while it exists.
class Interruptions {
 public:
  Interruptions() {
    struct sigaction action = {};
    action.sa_handler = [](int) {};
    // No SA_RESTART: the call shall end.
    ::sigaction(SIGALRM, &action, &before_);
    const timeval often = {0, 50'000};
    const itimerval timer = {often, often};
    ::setitimer(ITIMER_REAL, &timer, nullptr);
  }
  ~Interruptions() {
    const itimerval off = {};
    ::setitimer(ITIMER_REAL, &off, nullptr);
    ::sigaction(SIGALRM, &before_, nullptr);
  }
  Interruptions(const Interruptions&) = delete;
  Interruptions& operator=(const Interruptions&) = delete;

 private:
  struct sigaction before_ = {};
};

std::string Holder(int fd) {
  std::array<char, 32> text = {};
  const ssize_t got = ::pread(fd, text.data(), text.size() - 1, 0);
  int pid = 0;
  if (got <= 0 || std::from_chars(text.data(), text.data() + got, pid).ec != std::errc()) return "";
  return fmt::format(", process {}", pid);
}

}  // namespace

absl::Status MakeStateDirectory(const std::string& path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      return ErrnoStatus(errno, fmt::format("state directory {}", part));
    }
    if (end == std::string::npos) break;
  }
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> LockStateDirectory(const std::string& path, std::string_view program,
                                            std::chrono::milliseconds patience) {
  const std::string file = path + "/lock";
  UniqueFd fd(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return ErrnoStatus(errno, file);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return ErrnoStatus(errno, file);
    const Clock::time_point deadline = Clock::now() + patience;
    const Interruptions interruptions;
    while (::flock(fd.get(), LOCK_EX) != 0) {
      if (errno != EINTR) return ErrnoStatus(errno, file);
      if (Clock::now() < deadline) continue;
      return absl::FailedPreconditionError(
          fmt::format("state directory {} is in use by another {}{} (stop that one, or give "
                      "another --state-dir)",
                      path, program, Holder(fd.get())));
    }
  }
  // For the message above only; a full disk changes nothing else.
  const std::string pid = fmt::format("{}\n", ::getpid());
  if (::ftruncate(fd.get(), 0) == 0) (void)!::pwrite(fd.get(), pid.data(), pid.size(), 0);
  return fd;
}

}  // namespace muster
