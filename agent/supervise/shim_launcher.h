// The Launcher of a real node: directories, muster-shim processes, their sockets, and the killing
// of what dead shims left behind. Lives on the loop thread; what can block (scanning /proc,
// deleting files) runs on a worker thread of its own. It never interprets what an attempt is for.
#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/core/launcher.h"
#include "agent/supervise/job_scope.h"
#include "agent/supervise/shim_follower.h"
#include "agent/supervise/shim_process.h"
#include "common/io/event_loop.h"
#include "common/io/unique_fd.h"
#include "common/io/worker_thread.h"

namespace muster {

struct ShimLauncherOptions {
  NodeId node_id;
  // The current boot: process numbers recorded under another one mean nothing.
  std::string boot_id;
  // Absolute directory that holds one directory per attempt; made (0700) when missing.
  std::string attempts_directory;
  // Path of the muster-shim program.
  std::string shim_binary;
  // Environment of shims, `NAME=value`.
  std::vector<std::string> environ;
  // Value of MUSTER_LEASE_DIR; empty: the default.
  std::string lease_directory;
  // The agent's own control group, below which attempts get groups; empty: none.
  std::string cgroup_parent;
  // Gives every attempt a scope, which its shim is moved to before it begins, and which its group
  // is below. Where it fails the group is below `cgroup_parent`, which is not empty. Null: no
  // scopes. Outlives the launcher.
  ScopeMaker* scopes = nullptr;
  // The cards of the node, and whether they are simulated; see ShimBootstrap.
  std::vector<internal::ShimCard> cards;
  bool cards_are_simulated = false;
  // True when nobody asks for records after a power loss: shims need not wait for the disk.
  bool power_loss_ends_all = false;
  // The oom_score_adj that ranks get, when the agent has changed its own.
  std::optional<int> rank_oom_score_adj;
  // How long after the start groups are looked for that an agent and its shim left behind when they
  // were killed together.
  std::chrono::milliseconds stale_cgroups_delay{5000};
  // A shim that has not stopped its ranks this long after their grace is killed. Twice what one
  // that works needs to kill everything.
  std::chrono::milliseconds stop_limit{20'000};
  // A shim that was told to exit and did not within this time is killed.
  std::chrono::milliseconds quit_limit{5000};
  // Bound for killing what a dead shim left behind.
  std::chrono::milliseconds sweep_limit{10'000};
};

class ShimLauncher final : public Launcher, private ShimFollower::Owner {
 public:
  // Fails when the directory of the attempts cannot be made or opened. `loop` outlives the
  // launcher.
  static absl::StatusOr<std::unique_ptr<ShimLauncher>> Create(EventLoop& loop,
                                                              ShimLauncherOptions options);
  ~ShimLauncher() override;

  // The cards of the node are others now; see ShimLauncherOptions.
  void SetCards(std::vector<internal::ShimCard> cards) { cards_ = std::move(cards); }
  void SetObserver(Observer* observer) override { observer_ = observer; }
  // Told that a log file has grown, and that `fixed_bytes` from its beginning never change; the
  // rest must not be read before more is told or the log is closed.
  using LogsGrew = std::function<void(const AttemptId&, uint32_t rank, uint64_t fixed_bytes)>;
  // `grew` is told the log files that grow, each at most every 10 ms. An agent that attaches is
  // told of every file.
  void SetLogsGrew(LogsGrew grew) { logs_grew_ = std::move(grew); }
  std::vector<AttemptId> ListAttempts() override;
  void Launch(const AttemptId& id, internal::ShimBootstrap bootstrap) override;
  void Adopt(const AttemptId& id, uint64_t next_index) override;
  void Run(const AttemptId& id, internal::ShimRun run) override;
  void Stop(const AttemptId& id, std::chrono::milliseconds grace) override;
  void Signal(const AttemptId& id, int signal, std::vector<uint32_t> ranks) override;
  void Renew(const AttemptId& id, std::chrono::milliseconds lease) override;
  void Committed(const AttemptId& id, uint32_t rank, uint64_t bytes) override;
  void Quit(const AttemptId& id) override;
  void Sweep(const AttemptId& id, SweepDone done) override;
  void Release(const AttemptId& id) override;

  // Stops all ranks of all attempts, as the doing of this node for `reason`, and lets their shims
  // exit; records are delivered as ever, and nothing is launched any more. `done` runs once no shim
  // lives, or after `limit`, and then everything that still ran was killed.
  void StopAll(std::chrono::milliseconds grace, std::chrono::milliseconds limit,
               const std::string& reason, std::function<void()> done);

 private:
  using Follower = std::shared_ptr<ShimFollower>;

  ShimLauncher(EventLoop& loop, ShimLauncherOptions options, UniqueFd root);
  void OnShimRecord(ShimFollower& shim, const internal::ShimRecord& record) override;
  void OnLogsGrew(ShimFollower& shim, const internal::ShimLogsGrew& grew) override;
  void OnShimGone(ShimFollower& shim, const std::string& reason) override;

  Follower Find(const AttemptId& id) const;
  // A new follower, in place of one that is dead.
  Follower Make(const AttemptId& id);
  // The follower of the attempt, or one for what is on disk, silent. Null when nothing is there.
  Follower FindOrOpen(const AttemptId& id);
  void FillBootstrap(const AttemptDirectory& directory, internal::ShimBootstrap* bootstrap) const;
  void MakeScope(const Follower& shim, internal::ShimBootstrap bootstrap);
  // Says when scopes begin or cease to be made.
  void NoteScope(const AttemptId& id, const absl::Status& made);
  // Lets the shim begin, in a group below `cgroup_parent`; empty: in none.
  void Begin(const Follower& shim, const std::string& cgroup_parent,
             internal::ShimBootstrap* bootstrap);
  absl::Status AddCgroup(const AttemptId& id, const AttemptDirectory& directory,
                         const std::string& cgroup_parent, internal::ShimBootstrap* bootstrap);
  void RemoveStaleCgroups();
  void SweepDead(const AttemptId& id, const Follower& shim, bool dead, SweepDone done);
  void Delete(const AttemptId& id, std::string cgroup);
  // Removes the groups of attempts whose shim is dead; their files stay.
  void RemoveCgroups();
  bool AnyAlive() const;
  void CheckStopped();
  void LeaveStuckAlone();
  WorkerThread& worker();

  EventLoop& loop_;
  const ShimLauncherOptions options_;
  std::vector<internal::ShimCard> cards_ = options_.cards;
  UniqueFd root_;
  Observer* observer_ = nullptr;
  ChildReaper reaper_;
  std::map<AttemptId, Follower> followers_;
  // Released, and not gone yet.
  std::map<AttemptId, Follower> leaving_;
  // Every follower that may still live, those that were replaced included.
  std::vector<std::weak_ptr<ShimFollower>> made_;
  // Of attempts whose shim has no lock of its own yet.
  std::map<AttemptId, UniqueFd> cgroup_locks_;
  bool scopes_fail_ = false;
  bool ending_ = false;
  // Under way.
  size_t sweeps_ = 0;
  LogsGrew logs_grew_;
  std::function<void()> all_stopped_;
  Executor::TimerId stale_timer_ = 0;
  // Posted tasks look here whether the launcher still lives.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
  // Last: ends first. Made when needed.
  std::unique_ptr<WorkerThread> worker_;
};

}  // namespace muster
