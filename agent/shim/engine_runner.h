// Runs commands of the container engine beside the shim's loop, each as a child with a time limit.
// Owns those children and their pipes; hears of their ends from whoever reaps. Lives on the shim's
// only thread and never blocks.
#pragma once

#include <signal.h>

#include <functional>
#include <list>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/shim/poller.h"
#include "agent/shim/run_as.h"
#include "agent/shim/spawn.h"
#include "common/io/unique_fd.h"
#include "muster/internal/shim.pb.h"

namespace muster::shim {

class EngineRunner {
 public:
  struct Result {
    // It ended by itself, in time, with 0.
    bool ok = false;
    std::string out;
    // When not ok: in words, with what the engine said last.
    std::string problem;
    // Its program is not there.
    bool missing = false;
  };
  using Done = std::function<void(const Result&)>;

  explicit EngineRunner(Poller& poller) : poller_(poller) {}
  ~EngineRunner() { Abandon(); }
  EngineRunner(const EngineRunner&) = delete;
  EngineRunner& operator=(const EngineRunner&) = delete;

  // Before anything else.
  void Configure(const internal::ShimEngine& engine, std::optional<UserIds> user);

  // Runs `words` behind the engine's options. `done` is called once, unless Abandon comes before:
  // at once when nothing could be started, else later.
  void Run(const std::vector<std::string>& words, milliseconds limit, Done done);
  // A child was reaped; ignored unless it is one of these.
  void OnReaped(const siginfo_t& info);
  // Ends what takes too long.
  void OnTime(SteadyTime now);
  std::optional<SteadyTime> deadline() const;
  // Of the commands that run.
  std::set<pid_t> pids() const;
  // Kills all of them; nobody is told.
  void Abandon();

 private:
  struct Call {
    pid_t pid = -1;
    std::string what;
    SteadyTime end;
    UniqueFd out_fd;
    UniqueFd err_fd;
    UniqueFd exec_status_fd;
    std::string out;
    std::string err;
    Done done;
  };
  using Calls = std::list<Call>;

  bool Watch(UniqueFd& fd, std::string& text);
  void Read(UniqueFd& fd, std::string& text);
  void Close(UniqueFd& fd);
  // Takes the call off the list and tells its end.
  void Finish(Calls::iterator call, bool ok, const std::string& how, bool missing = false);

  Poller& poller_;
  std::string program_;
  std::string name_;
  Strings options_;
  Strings env_;
  std::optional<UserIds> user_;
  Calls calls_;
};

}  // namespace muster::shim
