// The processes that descend from the shim, as /proc shows them, and how to kill them. As the
// subreaper the shim stays an ancestor of everything its ranks start, whatever session or group it
// moves to. Keeps no state; single-threaded; bounded in time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/shim/poller.h"

namespace muster::shim {

struct ProcessInfo {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t session = 0;
  // As in /proc/PID/stat; Z and X are dead.
  char state = '?';
  // Clock ticks since boot; with the pid it names a process for good.
  uint64_t start_ticks = 0;
  // Processor time of the process and of its children that it has waited for, in clock ticks.
  uint64_t cpu_ticks = 0;
  std::string command;
  bool dead() const { return state == 'Z' || state == 'X'; }
};

// Parses /proc/PID/stat; nothing when the text is no such line.
std::optional<ProcessInfo> ParseStat(const std::string& text);

// Reads the state of one process; nothing when there is none.
std::optional<ProcessInfo> ReadProcess(pid_t pid);

// Every process below `root`, parents before their children. Not atomic: one that is being born or
// reparented may be missing.
std::vector<ProcessInfo> DescendantsOf(pid_t root);

// True when this process has no child left, dead or alive. For a subreaper that is: no descendant.
bool HasNoChildren();

// The value of RANK in the environment that a process was started with.
std::optional<uint32_t> RankInEnvironment(pid_t pid);

// Which of the descendants a rank has started. `rank_pids`: pids of the rank processes, which may
// be gone already. An orphan is told by its session or by RANK in its environment. Result: per
// descendant an index into `rank_pids`, or -1.
std::vector<int> AttributeToRanks(const std::vector<ProcessInfo>& descendants, pid_t root,
                                  const std::vector<pid_t>& rank_pids,
                                  const std::vector<uint32_t>& rank_numbers);

// Chooses among descendants; called with each pass's list, returns a flag for each.
using Selector = std::function<std::vector<bool>(const std::vector<ProcessInfo>&)>;

// Kills the selected descendants of `root` as far as possible within `budget`: stops them first,
// until a pass finds nobody new, so that they cannot outrun it by forking; then sends SIGKILL.
// Returns those it sent SIGKILL to, which may still be dying, or stuck.
std::vector<ProcessInfo> KillDescendants(pid_t root, const Selector& selector, milliseconds budget);

// "pid 17 (python3) in state D at nfs_wait_bit_killable", for people.
std::string DescribeProcess(const ProcessInfo& process);

}  // namespace muster::shim
