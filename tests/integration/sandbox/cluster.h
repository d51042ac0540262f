// A cluster on this machine: `coordinator serve` and agents as long-running processes over its
// Unix socket, which a test kills and starts again as it likes.
#pragma once

#include <signal.h>

#include <map>
#include <string>
#include <vector>

#include "tests/integration/sandbox/command_run.h"

namespace muster::testing {

class Cluster {
 public:
  // `nodes` nodes node-1, node-2, ... with `slots` each, and a hostfile `hosts` of them. Commands
  // of the sandbox go to this coordinator. Nothing runs yet.
  Cluster(int nodes, int slots);

  // Coordinator and all agents, up and in contact.
  void Start();

  void StartCoordinator();
  // Returns when it is gone.
  void KillCoordinator(int signal = SIGKILL);
  // `index` from 1.
  void StartAgent(int index);
  // Started by another program: `words`, then the agent with its arguments.
  void StartAgentBy(std::vector<std::string> words, int index);
  // Where that agent finds the coordinator, from its next start on; the socket unless said here.
  void SetCoordinatorOf(int index, const std::string& target) { targets_[index] = target; }
  void KillAgent(int index, int signal = SIGKILL);
  pid_t agent(int index) const { return agents_.at(index).pid(); }
  CommandRun& agent_run(int index) { return agents_.at(index); }
  CommandRun& coordinator() { return coordinator_.front(); }

  // Waits until this many nodes are alive, or in another state.
  void AwaitNodes(int count, const std::string& state = "alive");
  // Submits job.yaml (or `file`) without following it and returns the id.
  std::string Submit(const std::string& file = "job.yaml");
  // Exit status of `coordinator wait`.
  int WaitJob(const std::string& job);
  // What `coordinator logs --raw` returns of one rank.
  std::string Log(const std::string& job, int rank);
  // Processes of jobs: shims, ranks and what they started.
  std::vector<pid_t> JobProcesses() const;

  Sandbox& box() { return box_; }
  std::string socket() const { return box_.Path("c.sock"); }

 private:
  const int nodes_;
  const int slots_;
  Sandbox box_;
  // At most one.
  std::vector<CommandRun> coordinator_;
  std::map<int, CommandRun> agents_;
  std::map<int, std::string> targets_;
};

}  // namespace muster::testing
