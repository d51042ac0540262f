#include "agent/shim/oom_watch.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

namespace muster::shim {

pid_t ParseOomKill(std::string_view line) {
  // "Out of memory: Killed process N", "Memory cgroup out of memory: Killed process N".
  constexpr std::string_view kReason = "ut of memory";
  constexpr std::string_view kKilled = "illed process ";
  const size_t reason = line.find(kReason);
  if (reason == std::string_view::npos) return 0;
  const size_t killed = line.find(kKilled, reason);
  if (killed == std::string_view::npos) return 0;
  pid_t pid = 0;
  std::from_chars(line.data() + killed + kKilled.size(), line.data() + line.size(), pid);
  return pid;
}

void OomWatch::Open(const char* path) {
  log_.Reset(::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (log_) (void)::lseek(log_.get(), 0, SEEK_END);
}

bool OomWatch::WasKilled(pid_t pid) {
  ReadNew();
  return killed_.contains(pid);
}

void OomWatch::ReadNew() {
  // A read returns one line. The bound is for a kernel that talks without end.
  constexpr int kMaxLines = 20'000;
  char line[8192];
  for (int i = 0; log_ && i < kMaxLines; ++i) {
    const ssize_t count = ::read(log_.get(), line, sizeof(line));
    // EPIPE: lines were overwritten before they were read; the next read goes on behind them.
    if (count < 0 && (errno == EPIPE || errno == EINTR)) continue;
    if (count <= 0) return;
    const pid_t pid = ParseOomKill({line, static_cast<size_t>(count)});
    if (pid > 0) killed_.insert(pid);
  }
}

}  // namespace muster::shim
