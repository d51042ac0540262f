// Control groups (version 2) for attempts: a group per attempt lets everything that its ranks ever
// started be killed at once, however it detached itself. No controller is ever enabled.
// Who uses a group holds a shared lock (flock) on its directory, the agent until the shim has its
// own, so that groups that were left behind are told from those that wait for ranks.
// Thread-safe: no state. Only `KillCgroup` blocks, for a bounded time.
#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/io/unique_fd.h"

namespace muster {

// Path of the group inside the hierarchy ("/system.slice/x.service"), from the text of
// /proc/self/cgroup. Empty without a version 2 hierarchy.
std::string ParseUnifiedCgroup(std::string_view proc_self_cgroup);

// The same of a process, empty also when it is gone.
std::string CgroupOfProcess(int pid);

// Where the version 2 hierarchy is mounted. Empty when it is not.
std::string FindCgroupRoot();

// Directory of this process's own group when attempts can get groups below it: version 2, writable,
// with `cgroup.kill`. Empty when not, for example without root or delegation.
std::string FindWritableCgroup();

// Name of an attempt's group below the agent's own, or below its scope. `node` may hold any bytes.
std::string CgroupName(const AttemptId& attempt, const NodeId& node);

struct HeldCgroup {
  std::string directory;
  // The lock; the group is in use as long as it is open.
  UniqueFd lock;
};
// Makes the directory `parent`/`name` and locks it. One that exists, empty, is taken as it is.
absl::StatusOr<HeldCgroup> MakeCgroup(const std::string& parent, const std::string& name);

// Deletes the group and the groups below it. OK when there is none. Fails with what keeps it busy.
absl::Status RemoveCgroup(const std::string& directory);

// Directories of all groups of attempts below `parent`.
std::vector<std::string> ListCgroups(const std::string& parent);

// Kills what runs in the group of an attempt and deletes it, if nobody has locked it and it is
// older than a minute (a shim may be about to lock it): what was left behind when agent and shim
// were killed together.
void RemoveStaleCgroup(const std::string& directory);

struct CgroupKill {
  // Processes that were in the group, or in one below it.
  uint32_t killed = 0;
  // Those that are there still.
  std::vector<int> left;
};
// Kills every process of the group and of those below it, then waits until none is left or `limit`
// is over.
CgroupKill KillCgroup(const std::string& directory, std::chrono::milliseconds limit);

}  // namespace muster
