// From the first end of a rank to the last record: the kill ladder and the hunt for what is left.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "agent/shim/supervisor.h"
#include "agent/shim/text.h"

namespace muster::shim {
namespace {

// Time for helpers of ranks that ended by themselves to notice that and tidy up, as Python's
// resource tracker does with shared memory.
constexpr milliseconds kCourtesy{200};
// From SIGKILL on; what is alive after that is stuck in the kernel.
constexpr milliseconds kCleanupTime{10'000};
constexpr milliseconds kFirstPassDelay{5};
constexpr milliseconds kMostPassDelay{200};
// Between passes over processes that would not die.
constexpr milliseconds kStuckPassDelay{1000};
// One pass may keep the pipes waiting this long.
constexpr milliseconds kPassBudget{250};
// Between looks at who may still write to the log of a rank that has ended; a look reads all of
// /proc.
constexpr milliseconds kFirstLogCheckDelay{500};
constexpr milliseconds kMostLogCheckDelay{5000};
// How long output of a process that is no descendant may come after the last descendant's end.
constexpr milliseconds kForeignOutput{2000};
// Longest life of a fake stuck process.
constexpr std::chrono::minutes kFakeStuck{5};

SteadyTime Now() { return std::chrono::steady_clock::now(); }

}  // namespace

void Supervisor::Stop(milliseconds grace) {
  switch (phase_) {
    case Phase::kChecking:
    case Phase::kPrepared:
      checker_.Abandon();
      containers_.Abandon();
      checks_end_.reset();
      next_card_look_.reset();
      // Nothing was started, so there are no logs to close.
      ranks_.clear();
      Finish();
      return;
    case Phase::kRunning: {
      constexpr milliseconds kMost = std::chrono::hours(24 * 365);
      const SteadyTime kill_at = Now() + std::min(grace, kMost);
      kill_at_ = kill_at_ ? std::min(*kill_at_, kill_at) : kill_at;
      if (!stopping_) {
        stopping_ = true;
        // To the rank itself, not to its group: its helpers live until it is done with them.
        for (const auto& rank : ranks_) rank->Terminate();
        rest_to_kill_ = true;
      }
      return;
    }
    case Phase::kCleaning:
      // No more courtesy.
      stopping_ = true;
      if (next_pass_) next_pass_ = std::min(*next_pass_, Now());
      return;
    case Phase::kFailed:
    case Phase::kStopped:
      return;
  }
}

// Collects every child that has died: ranks, and orphans of theirs.
void Supervisor::Reap() {
  while (true) {
    siginfo_t info = {};
    // Looks first: what is known of a rank's start is taken while it is a zombie.
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) != 0 || info.si_pid == 0) {
      return;
    }
    RankProcess* rank = FindRank(info.si_pid);
    if (rank != nullptr) rank->TakeExecStatus();
    if (::waitid(P_PID, static_cast<id_t>(info.si_pid), &info, WEXITED | WNOHANG | __WALL) != 0) {
      return;
    }
    if (rank == nullptr) {
      containers_.OnReaped(info);
      continue;
    }
    if (!AsksHowItEnded(*rank, info)) rank->OnReaped(info);
    if (stopping_) rest_to_kill_ = true;
    next_log_check_ = Now();
    log_check_delay_ = kFirstLogCheckDelay;
  }
}

RankProcess* Supervisor::FindRank(pid_t pid) {
  for (const auto& rank : ranks_) {
    if (rank->pid() == pid && rank->alive()) return rank.get();
  }
  return nullptr;
}

// Acts on ends of ranks in this turn of the loop.
void Supervisor::AfterEnds() {
  if (phase_ != Phase::kRunning) return;
  const bool all_ended =
      std::all_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank->ended(); });
  if (all_ended) {
    BeginCleanup(/*kill_now=*/stopping_);
  } else if (rest_to_kill_) {
    rest_to_kill_ = false;
    KillRestOfEndedRanks();
  }
}

// While stopping, a rank that has ended takes what it started with it, at once.
void Supervisor::KillRestOfEndedRanks() {
  // What clients of an engine have started is the engine's to end.
  if (containers_.used()) return;
  bool look_at_tree = false;
  for (const auto& rank : ranks_) {
    if (!rank->ended() || rank->pid() <= 0) continue;
    if (!KillCgroup(*rank)) look_at_tree = true;
  }
  if (!look_at_tree || HasNoChildren()) return;
  CountKilled(KillDescendants(
      ::getpid(),
      [this](const std::vector<ProcessInfo>& processes) {
        const std::vector<int> owners = Attribute(processes);
        std::vector<bool> selected;
        selected.reserve(owners.size());
        for (const int owner : owners) {
          selected.push_back(owner >= 0 && ranks_[static_cast<size_t>(owner)]->ended());
        }
        return selected;
      },
      kPassBudget));
}

// Kills what is in the rank's cgroup. False when there is none that can do it.
bool Supervisor::KillCgroup(RankProcess& rank) {
  if (!rank.cgroup().exists()) return false;
  if (!rank.cgroup().IsPopulated()) return true;
  std::vector<ProcessInfo> processes;
  for (const pid_t pid : rank.cgroup().Processes()) {
    if (auto process = ReadProcess(pid)) processes.push_back(std::move(*process));
  }
  if (!rank.cgroup().Kill()) return false;
  CountKilled(processes);
  return true;
}

// Closes logs of ended ranks whose pipes are held open by a process that is no descendant of
// theirs.
void Supervisor::CheckOpenLogs(SteadyTime now) {
  next_log_check_.reset();
  const bool any_open = std::any_of(ranks_.begin(), ranks_.end(),
                                    [](const auto& rank) { return rank->OutputOutlivesIt(); });
  if (phase_ != Phase::kRunning || !any_open) return;
  std::vector<bool> has_descendant(ranks_.size(), false);
  const std::vector<ProcessInfo> processes = DescendantsOf(::getpid());
  const std::vector<int> owners = Attribute(processes);
  for (size_t p = 0; p < processes.size(); ++p) {
    if (processes[p].dead()) continue;
    if (owners[p] >= 0) {
      has_descendant[static_cast<size_t>(owners[p])] = true;
    } else {
      // It may be anybody's.
      has_descendant.assign(ranks_.size(), true);
    }
  }
  log_check_delay_ = std::min(log_check_delay_ * 2, kMostLogCheckDelay);
  for (size_t i = 0; i < ranks_.size(); ++i) {
    RankProcess& rank = *ranks_[i];
    if (!rank.OutputOutlivesIt()) continue;
    if (has_descendant[i]) {
      rank.no_descendant_since.reset();
      continue;
    }
    if (!rank.no_descendant_since) rank.no_descendant_since = now;
    if (now - *rank.no_descendant_since >= kForeignOutput) {
      rank.CloseLog();
    } else {
      log_check_delay_ = kFirstLogCheckDelay;
    }
  }
  next_log_check_ = now + log_check_delay_;
}

void Supervisor::BeginCleanup(bool kill_now) {
  if (phase_ != Phase::kRunning) return;
  phase_ = Phase::kCleaning;
  const SteadyTime now = Now();
  next_pass_ = kill_now ? now : now + kCourtesy;
  pass_delay_ = kFirstPassDelay;
  cleanup_end_ = *next_pass_ + kCleanupTime;
  kill_at_.reset();
  if (containers_.used()) {
    BeginRemoval(now, kill_now);
    cleanup_end_ = *removal_end_ + kCleanupTime / 2;
  }
}

// One pass of SIGKILL over all descendants.
void Supervisor::KillEverything(SteadyTime now) {
  const bool engine_first = IsRemoving(now);
  for (const auto& rank : ranks_) {
    rank->Kill();
    if (!engine_first) (void)KillCgroup(*rank);
  }
  if (!engine_first && !HasNoChildren()) {
    CountKilled(KillDescendants(
        ::getpid(),
        [this](const std::vector<ProcessInfo>& processes) {
          return AllButEngineCommands(processes);
        },
        kPassBudget));
  }
  Reap();
  if (phase_ == Phase::kStopped) {
    // Only what is stuck is left to wait for.
    next_pass_ = now + kStuckPassDelay;
    if (containers_.given_up(now) && OnlyEngineCommandsRun()) return GiveUpContainers();
    const bool fake_is_over = fake_end_ && now >= *fake_end_;
    if (!EverythingGone() && !fake_is_over) return;
    stuck_ = false;
    next_pass_.reset();
    fake_end_.reset();
    ReleaseLeases();
    return;
  }
  next_pass_ = now + pass_delay_;
  pass_delay_ = std::min(pass_delay_ * 2, kMostPassDelay);
}

bool Supervisor::EverythingGone() {
  if (!containers_.gone()) return false;
  // As the subreaper the shim is the parent of every orphan: no child means no descendant.
  if (!HasNoChildren()) return false;
  return std::none_of(ranks_.begin(), ranks_.end(), [](const auto& rank) {
    return rank->cgroup().IsPopulated() || (!rank->end_is_believed() && rank->pid() > 0);
  });
}

// The last record. What does not die by now keeps its slots.
void Supervisor::Finish() {
  next_pass_.reset();
  cleanup_end_.reset();
  kill_at_.reset();
  next_log_check_.reset();
  port_hold_.Release();
  for (const auto& rank : ranks_) rank->CloseLog();

  internal::ShimRecord record;
  internal::ShimStopped& stopped = *record.mutable_stopped();
  for (std::string& text : WithholdLeasesOfStuck()) stopped.add_unkillable(std::move(text));
  stopped.set_killed_leftovers(static_cast<uint32_t>(killed_.size()));
  phase_ = Phase::kStopped;
  stuck_ = stopped.unkillable_size() > 0;
  if (stuck_) {
    next_pass_ = Now() + kStuckPassDelay;
  } else {
    for (const auto& rank : ranks_) rank->cgroup().Remove();
  }
  // The leases are free before anybody can hear of the end and want them.
  journal_.Add(std::move(record), /*durable=*/true);
}

// Releases the leases of all that is gone and describes what is not.
std::vector<std::string> Supervisor::WithholdLeasesOfStuck() {
  std::vector<std::string> descriptions;
  if (!leases_) return descriptions;
  // A checker that hangs uses no slot.
  if (ranks_.empty() || EverythingGone()) {
    ReleaseLeases();
    return descriptions;
  }
  std::vector<bool> keep(ranks_.size(), false);
  descriptions = DescribeStuck(keep);
  // All died in this very moment.
  if (descriptions.empty()) {
    ReleaseLeases();
    return descriptions;
  }
  if (containers_.used() && containers_.gone()) {
    leases_->EndWithholding(AttemptNameOf(bootstrap_),
                            {bootstrap_.slots().begin(), bootstrap_.slots().end()});
  }
  for (const uint32_t slot : bootstrap_.slots()) {
    const bool kept = [&] {
      for (size_t i = 0; i < ranks_.size(); ++i) {
        if (keep[i] && ranks_[i]->slot() == slot) return true;
      }
      return false;
    }();
    if (!kept) leases_->ReleaseSlot(slot);
  }
  return descriptions;
}

std::vector<std::string> Supervisor::DescribeStuck(std::vector<bool>& keep) {
  std::vector<std::string> descriptions = containers_.Remaining();
  if (!descriptions.empty()) keep.assign(ranks_.size(), true);
  const std::vector<ProcessInfo> processes = DescendantsOf(::getpid());
  const std::vector<int> owners = Attribute(processes);
  const std::vector<bool> meant = AllButEngineCommands(processes);
  for (size_t i = 0; i < processes.size(); ++i) {
    if (processes[i].dead() || !meant[i]) continue;
    std::string text;
    if (owners[i] >= 0) {
      const auto owner = static_cast<size_t>(owners[i]);
      text = "rank " + std::to_string(ranks_[owner]->number()) + ": ";
      keep[owner] = true;
    } else {
      keep.assign(ranks_.size(), true);
    }
    descriptions.push_back(text + DescribeProcess(processes[i]));
  }
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const RankProcess& rank = *ranks_[i];
    if (rank.end_is_believed() || rank.pid() <= 0 || keep[i]) continue;
    keep[i] = true;
    fake_end_ = Now() + kFakeStuck;
    descriptions.push_back("rank " + std::to_string(rank.number()) + ": pid " +
                           std::to_string(rank.pid()) + " does not end (test hook)");
  }
  return descriptions;
}

std::vector<int> Supervisor::Attribute(const std::vector<ProcessInfo>& processes) const {
  std::vector<pid_t> pids;
  std::vector<uint32_t> numbers;
  for (const auto& rank : ranks_) {
    pids.push_back(rank->pid());
    numbers.push_back(rank->number());
  }
  return AttributeToRanks(processes, ::getpid(), pids, numbers);
}

void Supervisor::CountKilled(const std::vector<ProcessInfo>& killed) {
  for (const ProcessInfo& process : killed) {
    const bool is_rank = std::any_of(ranks_.begin(), ranks_.end(),
                                     [&](const auto& rank) { return rank->pid() == process.pid; });
    if (!is_rank) killed_.insert({process.pid, process.start_ticks});
  }
}

}  // namespace muster::shim
