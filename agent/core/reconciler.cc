#include "agent/core/reconciler.h"

namespace muster {
namespace {

std::optional<Action> Next(const AttemptView& attempt) {
  using Kind = Action::Kind;
  const auto desired = attempt.desired;
  // What a dead shim left is being killed; until that is done nothing is known.
  if (attempt.shim == ShimState::kSweeping) return std::nullopt;
  if (attempt.stopped) {
    // What cannot be killed uses its slots, its files and its shim until it is gone.
    if (desired == v1::Assignment::RELEASED && !attempt.remains) {
      return Action{Kind::kForget, attempt.id};
    }
    if (attempt.shim == ShimState::kFollowed && !attempt.quit_told) {
      return Action{Kind::kQuit, attempt.id};
    }
    return std::nullopt;
  }
  const bool to_stop = desired >= v1::Assignment::STOPPED;
  if (attempt.shim == ShimState::kFollowed) {
    if (to_stop && (!attempt.stop_told || attempt.grace < *attempt.stop_told)) {
      return Action{Kind::kStop, attempt.id, attempt.grace};
    }
    if (desired == v1::Assignment::RUNNING && attempt.prepared && !attempt.run_told) {
      return Action{Kind::kRun, attempt.id};
    }
    return std::nullopt;
  }
  if (attempt.shim == ShimState::kAwaited) {
    if (to_stop) return Action{Kind::kFinish, attempt.id};
    return std::nullopt;
  }
  if (attempt.shim == ShimState::kNone) {
    if (to_stop) return Action{Kind::kFinish, attempt.id};
    if (desired == v1::Assignment::RUNNING) return Action{Kind::kLose, attempt.id};
    if (desired == v1::Assignment::PREPARED) return Action{Kind::kLaunch, attempt.id};
  }
  return std::nullopt;
}

}  // namespace

std::vector<Action> Reconcile(const std::vector<AttemptView>& attempts) {
  std::vector<Action> actions;
  for (const AttemptView& attempt : attempts) {
    if (const std::optional<Action> action = Next(attempt)) actions.push_back(*action);
  }
  return actions;
}

bool NeedsJournal(Action::Kind kind) { return kind != Action::Kind::kStop; }

bool StartsSomething(Action::Kind kind) {
  return kind == Action::Kind::kLaunch || kind == Action::Kind::kRun;
}

}  // namespace muster
