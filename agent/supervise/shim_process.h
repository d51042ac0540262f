// Starts muster-shim and notices its end. The child gets a clean signal state, a session of its
// own, `/` as directory, and three descriptors: its bootstrap on stdin, a pipe on stdout that tells
// when its socket listens, a file as stderr. Lives on the loop thread; never blocks.
#pragma once

#include <absl/status/statusor.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/io/event_loop.h"
#include "common/io/unique_fd.h"

namespace muster {

struct ShimCommand {
  // Path of the program.
  std::string binary;
  // `NAME=value` strings.
  std::vector<std::string> environ;
  // Directory in which `shim.log` is made; -1: what it complains about is thrown away.
  int directory_fd = -1;
  // Behind its name.
  std::vector<std::string> arguments = {};
};

struct SpawnedShim {
  pid_t pid = 0;
  // Readable when the process has ended.
  UniqueFd pidfd;
  // Write end of its stdin; non-blocking.
  UniqueFd bootstrap;
  // Read end of its stdout; non-blocking.
  UniqueFd ready;
};

absl::StatusOr<SpawnedShim> SpawnShim(const ShimCommand& command);

// Reaps children, whoever is interested in them or not, so that none stays behind as a zombie.
class ChildReaper {
 public:
  // `status` as waitpid gives it.
  using Ended = std::function<void(int status)>;

  explicit ChildReaper(EventLoop& loop) : loop_(loop) {}
  ~ChildReaper();
  ChildReaper(const ChildReaper&) = delete;
  ChildReaper& operator=(const ChildReaper&) = delete;

  // Calls `ended` once, on the loop thread, when the child of `pidfd` has ended and was reaped.
  void Watch(pid_t pid, UniqueFd pidfd, Ended ended);

 private:
  void Reap(int pidfd);

  struct Child {
    pid_t pid = 0;
    UniqueFd pidfd;
    Ended ended;
  };
  EventLoop& loop_;
  std::map<int, Child> children_;
};

// "ended with code 3", "was killed by SIGKILL".
std::string DescribeWaitStatus(int status);

}  // namespace muster
