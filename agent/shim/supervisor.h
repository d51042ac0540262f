// The life of one attempt on one node: prepare, wait, start the ranks, watch them, stop them, and
// see to it that nothing they have started is left. Owns everything the attempt has on this node.
// Single-threaded: all of it runs in Run. Never waits for the agent, a disk that is full or a
// process that does not die.
//
//   kPrepared --run--> kRunning --all ranks ended, or grace over--> kCleaning --nothing left, or 10
//   s--> kStopped
//       |                                                                                        ^
//       +------------------------------- stop ---------------------------------------------------+
//   kFailed: a check failed. In kFailed and kStopped it waits for `quit`, and for processes that
//   would not die, whose slots it keeps.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/shim/agent_link.h"
#include "agent/shim/card_watch.h"
#include "agent/shim/containers.h"
#include "agent/shim/exec_checker.h"
#include "agent/shim/lease.h"
#include "agent/shim/log_growth.h"
#include "agent/shim/poller.h"
#include "agent/shim/port_hold.h"
#include "agent/shim/process_setup.h"
#include "agent/shim/process_tree.h"
#include "agent/shim/rank_process.h"
#include "agent/shim/record_journal.h"
#include "agent/shim/stall_watch.h"
#include "common/io/unique_fd.h"
#include "muster/internal/shim.pb.h"

namespace muster::shim {

// Exit statuses of the shim itself. They say nothing about the ranks.
inline constexpr int kExitDone = 0;
inline constexpr int kExitBadBootstrap = 2;
// Another shim holds the attempt, or has begun it before.
inline constexpr int kExitNotMine = 3;
inline constexpr int kExitNoResources = 4;

class Supervisor {
 public:
  Supervisor(internal::ShimBootstrap bootstrap, const Inherited& inherited);

  // Runs the attempt to its end. Returns an exit status of above.
  int Run();

 private:
  enum class Phase { kChecking, kPrepared, kFailed, kRunning, kCleaning, kStopped };
  using OptionalTime = std::optional<SteadyTime>;

  // supervisor.cc: beginning, requests, the loop.
  int Begin();
  int TakeLock();
  void Prepare();
  void OpenLeases();
  void EndChecks(std::vector<Problem> problems, std::vector<std::string> paths);
  void EndPrepare();
  void MakeRanks(const std::vector<std::string>& paths);
  void HandleRequest(const internal::ShimRequest& request);
  void StartRanks(const Strings& added);
  void OnSignals();
  void RenewLease(uint64_t lease_ms);
  void OnStop(const internal::ShimStop& stop);
  void SelfStop(const std::string& reason, milliseconds grace);
  SteadyTime NextDeadline() const;
  void OnTime(SteadyTime now);
  void CheckLingering(SteadyTime now);

  // supervisor_cards.cc: slots, and the cards that are waited for.
  void TakeSlots(SteadyTime now);
  std::string ProblemOfCard(uint32_t slot) const;

  // supervisor_containers.cc
  void CheckImage();
  bool AsksHowItEnded(RankProcess& rank, const siginfo_t& info);
  void BeginRemoval(SteadyTime now, bool kill_now);
  bool IsRemoving(SteadyTime now) const;
  bool OnlyEngineCommandsRun() const;
  void GiveUpContainers();
  void MarkSlotsOfContainers();
  void ReleaseLeases();
  std::vector<bool> AllButEngineCommands(const std::vector<ProcessInfo>& processes) const;

  // supervisor_stall.cc
  void WatchForStalls(SteadyTime now);
  void LookForStalls(SteadyTime now);

  // supervisor_stop.cc: from the first end of a rank to the last record.
  void Stop(milliseconds grace);
  void Reap();
  RankProcess* FindRank(pid_t pid);
  void AfterEnds();
  void KillRestOfEndedRanks();
  bool KillCgroup(RankProcess& rank);
  void CheckOpenLogs(SteadyTime now);
  void BeginCleanup(bool kill_now);
  void KillEverything(SteadyTime now);
  bool EverythingGone();
  void Finish();
  std::vector<std::string> WithholdLeasesOfStuck();
  // Describes the processes that are left, and says which ranks' they are.
  std::vector<std::string> DescribeStuck(std::vector<bool>& keep);
  std::vector<int> Attribute(const std::vector<ProcessInfo>& processes) const;
  void CountKilled(const std::vector<ProcessInfo>& killed);

  internal::ShimBootstrap bootstrap_;
  RankEnvironment environment_;
  // First: the others unwatch what they own when they are destroyed.
  Poller poller_;
  RecordJournal journal_;
  AgentLink link_;
  LogGrowth growth_{link_};
  UniqueFd lock_;
  // Shared: the control group of the attempt is in use.
  UniqueFd cgroup_lock_;
  UniqueFd signals_;
  std::optional<LeaseSet> leases_;
  // The rendezvous port, until the ranks are started or never will be.
  PortHold port_hold_{poller_};
  std::vector<std::unique_ptr<RankProcess>> ranks_;

  ExecChecker checker_{poller_};
  Containers containers_{poller_};
  bool image_checked_ = false;
  // A client of the engine was killed by somebody else.
  bool client_died_ = false;
  OptionalTime removal_end_;
  // Found so far.
  std::vector<Problem> problems_;
  LeaseSet::Port port_;
  // The programs of the ranks, once the checks are done.
  std::optional<std::vector<std::string>> paths_;
  // Slots are taken, or will not be.
  bool slots_done_ = false;
  // Cards are waited for until then, and looked at again before.
  OptionalTime cards_end_;
  OptionalTime next_card_look_;

  Phase phase_ = Phase::kChecking;
  bool stopping_ = false;
  // Ranks ended while stopping whose other processes are to be killed in this turn.
  bool rest_to_kill_ = false;
  bool quit_ = false;
  // Processes are left that could not be killed.
  bool stuck_ = false;
  // That slots cannot be withheld was told.
  bool told_withholding_ = false;
  bool told_to_exit_ = false;
  // Left-over processes that were killed, by pid and start time.
  std::set<std::pair<pid_t, uint64_t>> killed_;

  OptionalTime checks_end_;
  OptionalTime lease_end_;
  // Agent or coordinator were gone for longer than the job allows.
  bool lease_ran_out_ = false;
  // A request to run that came before the checks were done: what it adds to the environment.
  std::optional<Strings> early_run_;
  // The grace of a stop ends.
  OptionalTime kill_at_;
  // Next pass over what is left, and the time between passes.
  OptionalTime next_pass_;
  milliseconds pass_delay_{0};
  OptionalTime cleanup_end_;
  OptionalTime next_log_check_;
  // One for each rank, when ranks are watched.
  std::vector<StallWatch> stall_watches_;
  OptionalTime next_stall_look_;
  milliseconds log_check_delay_{0};
  OptionalTime next_retry_;
  OptionalTime linger_end_;
  OptionalTime fake_end_;
};

}  // namespace muster::shim
