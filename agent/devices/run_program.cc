#include "agent/devices/run_program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "common/base/annotate.h"
#include "common/base/signal_names.h"
#include "common/base/utf8.h"
#include "common/io/unique_fd.h"

namespace muster {
namespace {

using Steady = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr size_t kErrorBytes = 400;
// For the kernel to end what was killed.
constexpr milliseconds kReapLimit{1000};

// Both ends are above the standard streams, which the child's dup2 calls replace.
absl::Status MakePipe(UniqueFd& read_end, UniqueFd& write_end) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe");
  read_end.Reset(ends[0]);
  write_end.Reset(ends[1]);
  for (UniqueFd* fd : {&read_end, &write_end}) {
    if (fd->get() > 2) continue;
    const int moved = ::fcntl(fd->get(), F_DUPFD_CLOEXEC, 3);
    if (moved < 0) return ErrnoStatus(errno, "fcntl");
    fd->Reset(moved);
  }
  return absl::OkStatus();
}

absl::StatusOr<pid_t> Spawn(const ProgramCall& call, int out, int err) {
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_t actions;
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_init(&actions);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  // A group of its own, so that what it starts is ended with it.
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, 1);
  posix_spawn_file_actions_adddup2(&actions, err, 2);
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  std::vector<char*> argv;
  for (const std::string& word : call.argv) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  std::vector<char*> variables;
  for (const std::string& pair : call.environ) variables.push_back(const_cast<char*>(pair.c_str()));
  variables.push_back(nullptr);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, call.program.c_str(), &actions, &attributes, argv.data(),
                                  variables.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) return ErrnoStatus(error, call.program);
  return pid;
}

// Appends what is there, up to `most` bytes in all; what is beyond is read and counted as too much.
// False at the end of the file.
bool Drain(int fd, size_t most, std::string& text, bool& too_much) {
  std::array<char, 16384> buffer;
  const ssize_t got = ::read(fd, buffer.data(), buffer.size());
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  const size_t room = most - std::min(most, text.size());
  too_much = too_much || static_cast<size_t>(got) > room;
  text.append(buffer.data(), std::min(room, static_cast<size_t>(got)));
  return true;
}

int MillisecondsUntil(Steady::time_point deadline) {
  return static_cast<int>(
      std::max<int64_t>(0, std::chrono::ceil<milliseconds>(deadline - Steady::now()).count()));
}

std::string FirstLine(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 && c != '\n') c = ' ';
  }
  text.erase(0, text.find_first_not_of(" \n"));
  return ValidUtf8(text.substr(0, text.find('\n')));
}

// Ends the group and collects the program. Nothing when the kernel does not let go of it in time.
std::optional<int> EndAndReap(pid_t pid, int pidfd, bool kill_it) {
  // Also when the program has ended: it may have left something that writes on. The number is its
  // own until it is waited for.
  if (kill_it) (void)::kill(pid, SIGKILL);
  (void)::kill(-pid, SIGKILL);
  pollfd ended = {pidfd, POLLIN, 0};
  if (pidfd >= 0) (void)::poll(&ended, 1, static_cast<int>(kReapLimit.count()));
  int status = 0;
  for (;;) {
    const pid_t got = ::waitpid(pid, &status, pidfd >= 0 ? WNOHANG : 0);
    if (got == pid) return status;
    if (got == 0 || errno != EINTR) return std::nullopt;
  }
}

}  // namespace

absl::StatusOr<std::string> RunProgram(const ProgramCall& call) {
  UniqueFd out;
  UniqueFd out_end;
  UniqueFd err;
  UniqueFd err_end;
  absl::Status status = MakePipe(out, out_end);
  if (status.ok()) status = MakePipe(err, err_end);
  if (!status.ok()) return status;
  (void)::fcntl(out.get(), F_SETFL, O_NONBLOCK);
  (void)::fcntl(err.get(), F_SETFL, O_NONBLOCK);
  const Steady::time_point deadline = Steady::now() + call.limit;
  const absl::StatusOr<pid_t> pid = Spawn(call, out_end.get(), err_end.get());
  if (!pid.ok()) return pid.status();
  out_end.Reset();
  err_end.Reset();
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, *pid, 0)));

  std::string text;
  std::string complaint;
  bool too_much = false;
  bool ended = false;
  bool late = false;
  while (!ended && !too_much && !late) {
    pollfd watched[3] = {{out.get(), POLLIN, 0}, {err.get(), POLLIN, 0}, {pidfd.get(), POLLIN, 0}};
    const int left = MillisecondsUntil(deadline);
    if (left == 0) late = true;
    (void)::poll(watched, 3, left);
    bool long_complaint = false;
    if (watched[0].revents != 0 && !Drain(out.get(), call.most_bytes, text, too_much)) out.Reset();
    if (watched[1].revents != 0 && !Drain(err.get(), kErrorBytes, complaint, long_complaint)) {
      err.Reset();
    }
    // Without a pidfd the end of both streams has to do.
    ended = watched[2].revents != 0 || (!pidfd && !out && !err);
  }
  // What it wrote before it ended is in the pipes. Something that it left may keep them open.
  for (bool more = true; ended && more && out && !too_much;) {
    const size_t before = text.size();
    more = Drain(out.get(), call.most_bytes, text, too_much) && text.size() > before;
  }
  for (bool ignored = false, more = true; ended && more && err;) {
    const size_t before = complaint.size();
    more = Drain(err.get(), kErrorBytes, complaint, ignored) && complaint.size() > before;
  }
  const std::optional<int> result = EndAndReap(*pid, pidfd.get(), !ended);
  const std::string said =
      complaint.empty() ? "" : fmt::format(": {}", FirstLine(std::move(complaint)));
  if (too_much) {
    return absl::ResourceExhaustedError(
        fmt::format("{} wrote more than {} bytes and was ended", call.program, call.most_bytes));
  }
  if (!ended) {
    return absl::DeadlineExceededError(fmt::format("{} took longer than {} ms and was ended{}",
                                                   call.program, call.limit.count(), said));
  }
  if (!result.has_value()) {
    return absl::UnavailableError(fmt::format("{}: how it ended is not known", call.program));
  }
  if (WIFSIGNALED(*result)) {
    return absl::UnavailableError(
        fmt::format("{} was ended by {}{}", call.program, SignalName(WTERMSIG(*result)), said));
  }
  if (WEXITSTATUS(*result) != 0) {
    return absl::UnavailableError(
        fmt::format("{} ended with code {}{}", call.program, WEXITSTATUS(*result), said));
  }
  return text;
}

std::string FindInPath(std::string_view name, std::string_view path) {
  while (!path.empty()) {
    const size_t end = std::min(path.find(':'), path.size());
    const std::string folder(path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
    // What is relative depends on where the agent happens to run.
    if (!folder.starts_with('/')) continue;
    std::string candidate = fmt::format("{}/{}", folder, name);
    struct stat info = {};
    if (::stat(candidate.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
        ::access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
  }
  return "";
}

}  // namespace muster
