#include "tests/integration/sandbox/guard.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/io/unique_fd.h"

namespace muster::testing {
namespace {

// The end of a connection whose other end is the guard's input.
UniqueFd StartGuard() {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return {};
  UniqueFd ours(ends[0]);
  const UniqueFd its(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  // Its own session: what kills the test program with its group or terminal must not reach it.
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  ::posix_spawn_file_actions_adddup2(&actions, its.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  ::posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  char program[] = "/usr/bin/python3";
  char isolated[] = "-I";
  char script[] = GUARD_PROGRAM;
  char* argv[] = {program, isolated, script, nullptr};
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, program, &actions, &attributes, argv, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  EXPECT_EQ(error, 0) << program;
  return ours;
}

void Tell(const std::string& line) {
  static const UniqueFd guard = StartGuard();
  if (!guard) return;
  // Less than the kernel buffers, and without SIGPIPE: tests go on without a guard.
  (void)!::send(guard.get(), line.data(), line.size(), MSG_NOSIGNAL);
}

}  // namespace

void GuardSandbox(const std::string& folder) { Tell("+" + folder + "\n"); }
void UnguardSandbox(const std::string& folder) { Tell("-" + folder + "\n"); }

}  // namespace muster::testing
