// Runs the real `coordinator` in a folder of its own: own home, own local jobs, own leases, so that
// tests neither see each other nor the user. Every wait has a bound; whatever a test leaves behind
// is killed, also when the test program was (guard.h).
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/io/unique_fd.h"

namespace muster::testing {

using Seconds = std::chrono::duration<double>;

// Waits until `ready` or the limit; asks every few milliseconds.
bool WaitUntil(const std::function<bool()>& ready, Seconds limit = Seconds(20));

class Sandbox;

// A command that runs. Killed, with its process group, when it goes out of scope.
class CommandRun {
 public:
  CommandRun(CommandRun&& other) noexcept;
  ~CommandRun();
  CommandRun& operator=(CommandRun&&) = delete;

  pid_t pid() const { return pid_; }
  // Exit status, 128 + signal when a signal ended it, -1 when it did not end within the limit.
  int Wait(Seconds limit = Seconds(60));
  bool ended();
  void Send(int signal) const;
  // To the whole process group, as a terminal does.
  void SendToGroup(int signal) const;
  // What it has written so far. Empty for an stdout that is a pipe.
  std::string out() const;
  std::string err() const;
  // Reading end of its stdout when that is a pipe; our end of its terminal.
  UniqueFd& out_pipe() { return out_pipe_; }
  // Since it was started; up to its end once it was waited for.
  double seconds() const;

 private:
  friend class Sandbox;
  CommandRun() = default;

  pid_t pid_ = -1;
  int status_ = -1;
  bool ended_ = false;
  std::string out_path_;
  std::string err_path_;
  UniqueFd out_pipe_;
  std::chrono::steady_clock::time_point begin_;
  std::chrono::steady_clock::time_point end_;
};

class Sandbox {
 public:
  Sandbox();
  // Kills every process that carries this sandbox's mark and removes the folder.
  ~Sandbox();
  Sandbox(const Sandbox&) = delete;
  Sandbox& operator=(const Sandbox&) = delete;

  const std::string& path() const { return path_; }
  std::string Path(const std::string& name) const { return path_ + "/" + name; }
  void Write(const std::string& name, const std::string& text) const;
  std::string Read(const std::string& name) const;
  bool Has(const std::string& name) const;
  bool WaitFor(const std::string& name, Seconds limit = Seconds(20)) const;

  // A hostfile `hosts` of node-1 to node-N.
  void Hosts(int nodes, int slots) const;
  // Variables for commands to come.
  void Set(const std::string& name, const std::string& value) { env_[name] = value; }
  void Unset(const std::string& name) { env_.erase(name); }

  // Soft limit of a resource for commands to come.
  void LimitSoftly(__rlimit_resource resource, rlim_t soft) { soft_limits_[resource] = soft; }

  // kTerminal: stdin, stdout and stderr are a terminal that the command leads the session of.
  enum class Stdout { kFile, kPipe, kTerminal };
  // Starts `coordinator` with these arguments in the folder; `stdin_fd` or nothing as stdin.
  CommandRun Start(const std::vector<std::string>& arguments, Stdout out = Stdout::kFile,
                   int stdin_fd = -1);
  // Another program of the project by its name, or any by its path.
  CommandRun StartProgram(const std::string& name, const std::vector<std::string>& arguments,
                          Stdout out = Stdout::kFile, int stdin_fd = -1);
  // Starts `coordinator`, waits for its end.
  CommandRun Run(const std::vector<std::string>& arguments);

  // Processes whose environment carries this sandbox's mark, but for `coordinator` itself: agents,
  // shims, ranks and what they started.
  std::vector<pid_t> Processes() const;
  // The folder of the programs: beside this one, unless MUSTER_BIN_DIR says otherwise.
  static std::string Programs();
  // Words that a process was started with; empty when it is gone.
  static std::vector<std::string> Words(pid_t pid);
  // Variables that a process was started with, as `NAME=value`.
  static std::vector<std::string> Variables(pid_t pid);
  // Ids of agents that serve a node.
  std::vector<pid_t> Agents(const std::string& node) const;

 private:
  std::string path_;
  std::string mark_;
  std::map<std::string, std::string> env_;
  std::map<__rlimit_resource, rlim_t> soft_limits_;
  int runs_ = 0;
};

}  // namespace muster::testing
