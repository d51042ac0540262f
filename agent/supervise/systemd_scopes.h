// Asks systemd, the manager of the system, for scopes. Speaks D-Bus through libsystemd, which is
// loaded when the first scope is wanted: hosts without systemd need none of it. Lives on the loop
// thread; a thread of its own waits for the answers, and every question has a time limit. A
// connection lasts for one question, so that a bus that is started again is no matter.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "agent/supervise/job_scope.h"
#include "common/base/executor.h"
#include "common/io/worker_thread.h"

namespace muster {

class SystemdScopes final : public ScopeMaker {
 public:
  // True when this process, with this environment (`NAME=value` strings), is root's service of the
  // systemd that runs this machine, so that what it starts would else be part of its own unit.
  static bool Wanted(const std::vector<std::string>& environment);

  // Scopes are put into `slice`, a name that IsSliceName takes; systemd makes it when it is not
  // there. `cgroup_root`: where the version 2 hierarchy is mounted. `executor` outlives it and runs
  // what is posted from other threads.
  SystemdScopes(Executor& executor, std::string slice, std::string cgroup_root);
  // As End.
  ~SystemdScopes() override;

  // Waits for the question that is being asked; no other one is asked, and none is answered. To be
  // called before shims that wait are let go: systemd would keep the scope of one that has ended by
  // then for ever.
  void End();

  void Make(ScopeRequest request, Done done) override;
  std::string directory() const override;

 private:
  class Library;

  using Time = std::chrono::steady_clock::time_point;

  // On the thread of its own. `wanted`: when it was to be made.
  absl::StatusOr<std::string> Ask(const ScopeRequest& request, Time wanted);

  Executor& executor_;
  const std::string slice_;
  const std::string cgroup_root_;
  std::unique_ptr<Library> library_;
  // When systemd last left a question without an answer. What was wanted before is not asked, so
  // that many jobs at once do not wait for each other's limits. Of the thread.
  Time silent_ = Time::min();
  std::atomic<bool> ended_ = false;
  // Last: ends first. Made when needed.
  std::unique_ptr<WorkerThread> worker_;
};

}  // namespace muster
