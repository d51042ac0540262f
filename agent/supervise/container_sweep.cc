#include "agent/supervise/container_sweep.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "common/io/unique_fd.h"

namespace muster {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// For muster-shim to begin, and to say what it has done.
constexpr milliseconds kMargin{2000};

UniqueFd FileOf(const std::string& bytes) {
  UniqueFd fd(::memfd_create("muster-engine", MFD_CLOEXEC));
  if (!fd || ::write(fd.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()) ||
      ::lseek(fd.get(), 0, SEEK_SET) != 0) {
    return {};
  }
  return fd;
}

// 0 or an errno.
int Spawn(const std::string& binary, const std::vector<std::string>& environ, int stdin_fd,
          int stdout_fd, milliseconds limit, pid_t* pid) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  if (const int error = ::posix_spawn_file_actions_init(&actions)) return error;
  if (const int error = ::posix_spawnattr_init(&attributes)) {
    ::posix_spawn_file_actions_destroy(&actions);
    return error;
  }
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  std::string name = "muster-shim";
  std::string option = "--remove-containers";
  std::string text = fmt::format("{}", limit.count());
  char* argv[] = {name.data(), option.data(), text.data(), nullptr};
  std::vector<char*> variables;
  for (const std::string& one : environ) variables.push_back(const_cast<char*>(one.c_str()));
  variables.push_back(nullptr);
  int error = ::posix_spawn_file_actions_adddup2(&actions, stdin_fd, 0);
  if (error == 0) error = ::posix_spawn_file_actions_adddup2(&actions, stdout_fd, 1);
  if (error == 0) {
    error = ::posix_spawn(pid, binary.c_str(), &actions, &attributes, argv, variables.data());
  }
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  return error;
}

std::string ReadUntil(int fd, Clock::time_point end) {
  std::string text;
  std::array<char, 4096> buffer;
  while (true) {
    const auto left = std::chrono::ceil<milliseconds>(end - Clock::now());
    pollfd wait = {fd, POLLIN, 0};
    if (left.count() <= 0) return text;
    const int ready = ::poll(&wait, 1, static_cast<int>(left.count()));
    if (ready < 0 && errno != EINTR) return text;
    if (ready <= 0) continue;
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got <= 0) return text;
    text.append(buffer.data(), static_cast<size_t>(got));
  }
}

}  // namespace

bool ParseContainerSweep(const std::string& text, ContainerSweep& sweep) {
  constexpr std::string_view kKilled = "killed ";
  if (!text.starts_with(kKilled) || !text.ends_with('\n')) return false;
  size_t end = text.find('\n');
  const char* const last = text.data() + end;
  const auto number = std::from_chars(text.data() + kKilled.size(), last, sweep.killed);
  if (number.ec != std::errc() || number.ptr != last) return false;
  for (size_t begin = end + 1; begin < text.size(); begin = end + 1) {
    end = text.find('\n', begin);
    sweep.left.push_back(text.substr(begin, end - begin));
  }
  return true;
}

ContainerSweep SweepContainers(const std::string& shim_binary,
                               const std::vector<std::string>& environ,
                               const std::string& bootstrap, milliseconds limit) {
  ContainerSweep sweep;
  const auto fail = [&](const std::string& reason) {
    sweep.left.push_back("containers of the attempt, which could not be looked for: " + reason);
    return sweep;
  };
  const UniqueFd input = FileOf(bootstrap);
  int ends[2];
  if (!input || ::pipe2(ends, O_CLOEXEC) != 0) return fail(std::strerror(errno));
  const UniqueFd output(ends[0]);
  UniqueFd write_end(ends[1]);
  pid_t pid = 0;
  const int error = Spawn(shim_binary, environ, input.get(), write_end.get(), limit, &pid);
  if (error != 0) return fail(std::strerror(error));
  write_end.Reset();
  const std::string text = ReadUntil(output.get(), Clock::now() + limit + kMargin);
  // It has ended, or is late; either way it is ours to reap.
  (void)::kill(pid, SIGKILL);
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (!ParseContainerSweep(text, sweep)) return fail("muster-shim did not answer");
  return sweep;
}

}  // namespace muster
