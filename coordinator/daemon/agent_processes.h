// The agents of a local run: child processes of this one, each in a session of its own so that the
// terminal's signals do not reach them. One that crashes is started again while nothing runs,
// unless it does so again and again right after its start, or says that it was called wrongly.
// Later the death of an agent is that of its node, and a last agent is started at the end to clear
// up what it left. Each method says where it may be called.
#pragma once

#include <absl/status/status.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "common/io/event_loop.h"
#include "common/io/unique_fd.h"
#include "coordinator/plan/local_hosts.h"

namespace muster {

class AgentProcesses {
 public:
  // How often an agent may die right after its start.
  static constexpr int kMostQuickDeaths = 3;

  struct Death {
    std::string node_id;
    // How it ended, and the last line that it wrote to its stderr.
    std::string text;
    // Another one was started in its place.
    bool replaced = false;
  };
  using OnDeath = std::function<void(const Death& death)>;
  // True while an agent that died is to be replaced.
  using MayReplace = std::function<bool()>;

  // `coordinator`: `unix:/path`. `addresses`: what every agent reports, the preferred first.
  AgentProcesses(std::string program, std::string coordinator, std::vector<std::string> addresses);
  // Flags that agents get besides: `--devices`, and `--sysroot` with the tree of the node below
  // `sysroot` when there is one, else with `sysroot` itself. Empty: not given. Before `Spawn`.
  void SetDevices(std::string devices, std::string sysroot);
  // Kills what still runs.
  ~AgentProcesses();
  AgentProcesses(const AgentProcesses&) = delete;
  AgentProcesses& operator=(const AgentProcesses&) = delete;

  // Starts one agent with this state directory, which exists. Before `Watch`.
  absl::Status Spawn(const LocalAgent& agent, const std::string& state_directory);

  // From now on deaths are told, on the loop. Call on the loop.
  void Watch(EventLoop& loop, MayReplace may_replace, OnDeath on_death);
  // Deaths are not told any more. Call on the loop.
  void Unwatch();

  // Starts agents in place of those that crashed, for StopAll to end what these left. After
  // Unwatch.
  void Revive();

  // Asks all to leave and waits; kills those that are still there after `limit`. Blocks. After
  // Unwatch, on any one thread.
  void StopAll(std::chrono::milliseconds limit);

 private:
  struct Process {
    LocalAgent agent;
    std::string state_directory;
    std::chrono::steady_clock::time_point start;
    int quick_deaths = 0;
    pid_t pid = 0;
    // Readable once the process has ended.
    UniqueFd pidfd;
    bool reaped = false;
    bool crashed = false;
  };

  absl::Status Launch(Process& process) const;
  void OnEnd(size_t index);
  void WatchProcess(size_t index);
  // Waits for those that have not ended; true when all have.
  bool WaitForAll(std::chrono::steady_clock::time_point deadline);

  const std::string program_;
  const std::string coordinator_;
  const std::vector<std::string> addresses_;
  std::string devices_;
  std::string sysroot_;
  std::vector<Process> processes_;
  EventLoop* loop_ = nullptr;
  MayReplace may_replace_;
  OnDeath on_death_;
};

}  // namespace muster
