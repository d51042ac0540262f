// Runs CheckExec in a child process: a working directory on a file server that does not answer
// hangs the child, not the shim, which goes on to hear the agent and to watch its lease. The child
// becomes the user that the ranks are for, as file servers may refuse even root. Lives on the
// shim's only thread.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "agent/shim/exec_image.h"
#include "agent/shim/poller.h"
#include "common/io/unique_fd.h"
#include "muster/internal/shim.pb.h"

namespace muster::shim {

class ExecChecker {
 public:
  // `problems` of CheckExec, and the `paths` of the ranks' programs.
  using Done = std::function<void(std::vector<Problem> problems, std::vector<std::string> paths)>;

  explicit ExecChecker(Poller& poller) : poller_(poller) {}
  ~ExecChecker() { Abandon(); }
  ExecChecker(const ExecChecker&) = delete;
  ExecChecker& operator=(const ExecChecker&) = delete;

  // Starts the checks. `done` is called once, later; when no child can be had, at once.
  void Start(const internal::ShimBootstrap& bootstrap, Done done);
  // True from Start until `done` was called or Abandon.
  bool running() const { return results_.valid(); }
  // Kills the child and forgets it; `done` is not called any more.
  void Abandon();

 private:
  void OnReadable();

  Poller& poller_;
  pid_t pid_ = -1;
  UniqueFd results_;
  std::string received_;
  Done done_;
};

}  // namespace muster::shim
