// What is different when ranks are clients of a container engine: their ends are asked for where
// the client's own does not tell, and the attempt is not over before the engine has no container of
// it.

#include <unistd.h>

#include <utility>

#include "agent/shim/supervisor.h"
#include "agent/shim/text.h"

namespace muster::shim {
namespace {

// From SIGKILL on, for the engine; then what it has left in this process tree is killed. Both
// together stay below what the agent waits for a shim that stops.
constexpr milliseconds kRemovalTime{10'000};

SteadyTime Now() { return std::chrono::steady_clock::now(); }

}  // namespace

void Supervisor::CheckImage() {
  containers_.CheckImage([this](std::string problem) {
    if (!problem.empty()) {
      // The engine's storage is the user's own.
      if (bootstrap_.has_run_as()) problem += " as user " + bootstrap_.run_as().name();
      problems_.push_back({"container-image", std::move(problem)});
    }
    image_checked_ = true;
    EndPrepare();
  });
}

// True when the end of the rank is told later, once the engine has been asked.
bool Supervisor::AsksHowItEnded(RankProcess& rank, const siginfo_t& info) {
  if (!containers_.used() || rank.container().empty() || rank.start_failed() || rank.was_killed() ||
      !IsDoubtful(info)) {
    return false;
  }
  client_died_ = client_died_ || info.si_code != CLD_EXITED;
  rank.OnReapedUndecided();
  containers_.Ask(rank.container(), [this, &rank, info](const ContainerState& state) {
    rank.RecordEnd(
        EndOfClient(rank.number(), containers_.engine(), info, state, rank.LastWordsOfClient()));
    next_log_check_ = Now();
  });
  return true;
}

// Containers outlive this process. Should it be killed, its locks are gone at once and whoever
// removes the containers comes a little later, or never: until then nobody may have the slots.
void Supervisor::MarkSlotsOfContainers() {
  if (!containers_.used() || !leases_) return;
  const std::string problem = leases_->MarkAll(
      AttemptNameOf(bootstrap_),
      bootstrap_.holder() + (bootstrap_.holder().empty() ? "" : ": ") +
          "its containers may still run, the process that looked after them does not");
  if (!problem.empty()) Complain("slots of containers are not marked: " + problem);
}

// All that had them is gone.
void Supervisor::ReleaseLeases() {
  if (!leases_) return;
  if (containers_.used()) {
    leases_->EndWithholding(AttemptNameOf(bootstrap_),
                            {bootstrap_.slots().begin(), bootstrap_.slots().end()});
  }
  leases_->ReleaseAll();
}

void Supervisor::BeginRemoval(SteadyTime now, bool kill_now) {
  removal_end_ = now + kRemovalTime;
  containers_.BeginRemoval(kill_now || client_died_);
}

// True while what is left is the engine's to end.
bool Supervisor::IsRemoving(SteadyTime now) const {
  return !containers_.gone() && removal_end_ && now < *removal_end_;
}

bool Supervisor::OnlyEngineCommandsRun() const {
  const std::vector<ProcessInfo> processes = DescendantsOf(::getpid());
  const std::vector<bool> others = AllButEngineCommands(processes);
  for (size_t i = 0; i < processes.size(); ++i) {
    if (others[i] && !processes[i].dead()) return false;
  }
  return true;
}

// Ends the wait for an engine that will not come back. Its containers may still run, so nobody gets
// their slots: marks go on withholding them when this process is gone.
void Supervisor::GiveUpContainers() {
  std::string left;
  for (const std::string& text : containers_.Remaining()) left += (left.empty() ? "" : "; ") + text;
  const std::string reason = bootstrap_.holder() + (bootstrap_.holder().empty() ? "" : ": ") + left;
  const std::string problem =
      leases_ ? leases_->WithholdAll(AttemptNameOf(bootstrap_), reason) : "";
  if (!problem.empty()) {
    if (!told_withholding_) Complain("slots stay taken, and this process with them: " + problem);
    told_withholding_ = true;
    return;
  }
  Complain("the engine is gone for good, and nobody waits for it any more; slots are withheld: " +
           reason);
  containers_.Abandon();
  stuck_ = false;
  next_pass_.reset();
  told_to_exit_ = true;
}

// Flags of those that are to be killed: all but commands of the engine, which has its own limits.
std::vector<bool> Supervisor::AllButEngineCommands(
    const std::vector<ProcessInfo>& processes) const {
  std::set<pid_t> spared = containers_.pids();
  std::vector<bool> selected;
  selected.reserve(processes.size());
  for (const ProcessInfo& process : processes) {
    // Parents come before their children.
    if (spared.contains(process.parent)) spared.insert(process.pid);
    selected.push_back(!spared.contains(process.pid));
  }
  return selected;
}

}  // namespace muster::shim
