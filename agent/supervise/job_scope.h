// Scopes of systemd for attempts: a unit of its own per attempt, which is no part of the agent's
// service and lives exactly as long as a process of the attempt. Names and texts are pure; who
// makes scopes is an interface, so that the launcher needs no systemd.
#pragma once

#include <absl/status/statusor.h>
#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"

namespace muster {

// The slice that holds the scopes unless the configuration names another one.
inline constexpr char kDefaultJobSlice[] = "muster-jobs.slice";

// Name of the unit: "muster-job-7f3a-1.scope". What unit names cannot hold is escaped as systemd
// does it, "\x2f".
std::string ScopeUnitName(const AttemptId& attempt);

// Description of the unit, one line of valid UTF-8 for people: "Muster: alice, job 7f3a, attempt
// 1". `holder` is the text of ShimBootstrap.
std::string ScopeDescription(std::string_view holder, uint32_t attempt);

// True for names of slices below the root: "a.slice", "a-b.slice".
bool IsSliceName(std::string_view name);

// Path of a slice's control group inside the hierarchy: "/a.slice/a-b.slice" for "a-b.slice".
std::string SliceCgroup(std::string_view slice);

// True when a process in the control group of this path (see ParseUnifiedCgroup) is a service of
// the system's manager, not of a user's and not somebody's shell.
bool IsSystemService(std::string_view cgroup_path);

// True when systemd made this environment (`NAME=value` strings) for the process `pid`; false when
// it is inherited from a service that has started the process, such as a runner of tests.
bool IsStartedBySystemd(const std::vector<std::string>& environment, pid_t pid);

struct ScopeRequest {
  std::string unit;
  std::string description;
  // The process that is put into the scope. It must live, or be a zombie, until there is an answer.
  pid_t pid = 0;
};

class ScopeMaker {
 public:
  // Directory of the control group that holds the process now, or why it has no scope.
  using Done = std::function<void(absl::StatusOr<std::string> directory)>;

  virtual ~ScopeMaker() = default;
  // Makes a scope. `done` runs once, on the loop thread, in a later turn and within seconds.
  virtual void Make(ScopeRequest request, Done done) = 0;
  // Directory of the control group that holds all scopes; there only while it is needed.
  virtual std::string directory() const = 0;
};

}  // namespace muster
