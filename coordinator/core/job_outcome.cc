#include "coordinator/core/job_outcome.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <string>
#include <vector>

#include "common/base/signal_names.h"
#include "coordinator/core/job_text.h"

namespace muster {
namespace {

using v1::Job;

internal::Outcome Make(Job::State state, Job::Cause cause, int exit_code, std::string reason) {
  internal::Outcome outcome;
  outcome.set_state(state);
  outcome.set_cause(cause);
  outcome.set_exit_code(exit_code);
  outcome.set_reason(std::move(reason));
  return outcome;
}

internal::Outcome FailureOutcome(const AttemptFailure& known, const AttemptRecord& attempt) {
  std::string reason = known.failure.message();
  const std::string& own = attempt.nodes[known.node_index].own_reason;
  if (known.failure.has_rank() && !own.empty()) {
    reason += fmt::format("; {} had stopped its ranks by itself: {}",
                          attempt.nodes[known.node_index].host, own);
  }
  switch (known.cause) {
    case Job::RANK_FAILED:
    case Job::EXEC_FAILED:
      return Make(Job::FAILED, known.cause, ExitCodeOf(known.failure.status()), std::move(reason));
    case Job::NODE_LOST:
      return Make(Job::FAILED, known.cause, kExitNodeLost, std::move(reason));
    case Job::PREPARE_FAILED:
      return Make(Job::FAILED, known.cause, kExitNotStarted, std::move(reason));
    case Job::STALLED:
      return Make(Job::FAILED, known.cause, kExitTimeLimit, std::move(reason));
    default:
      return Make(Job::FAILED, Job::INTERNAL, kExitInternal, std::move(reason));
  }
}

internal::Outcome StopOutcome(const StopOrder& stop) {
  switch (stop.cause) {
    case Job::PREPARE_FAILED:
    case Job::NODE_MISSING:
      return Make(Job::FAILED, stop.cause, kExitNotStarted, stop.reason);
    case Job::NODE_LOST:
      return Make(Job::FAILED, stop.cause, kExitNodeLost, stop.reason);
    case Job::TIME_LIMIT:
      return Make(Job::FAILED, stop.cause, kExitTimeLimit, stop.reason);
    default:
      return Make(Job::FAILED, Job::INTERNAL, kExitInternal, stop.reason);
  }
}

internal::Outcome OutcomeOfRanks(const JobRecord& job, const AttemptRecord& attempt) {
  if (job.cancel.has_value() && !job.cancel->late) return CancelledOutcome(*job.cancel);
  if (attempt.failure.has_value()) return FailureOutcome(*attempt.failure, attempt);
  const bool decided = attempt.stop.has_value() && attempt.stop->cause != Job::NONE;
  if (decided) return StopOutcome(*attempt.stop);
  if (attempt.all_zero()) {
    return Make(Job::SUCCEEDED, Job::NONE, 0,
                attempt.ranks.size() == 1
                    ? std::string("the rank ended with 0")
                    : fmt::format("all {} ranks ended with 0", attempt.ranks.size()));
  }
  return Make(Job::FAILED, Job::INTERNAL, kExitInternal,
              "every node reported to be done, but not every rank has an exit record");
}

}  // namespace

int ExitCodeOf(const v1::ExitStatus& status) {
  switch (status.outcome_case()) {
    case v1::ExitStatus::kExitCode:
      return status.exit_code() >= 1 && status.exit_code() <= 255 ? status.exit_code()
                                                                  : kExitInternal;
    case v1::ExitStatus::kSignal:
      return status.signal() >= 1 && status.signal() <= 64 ? kExitSignalBase + status.signal()
                                                           : kExitInternal;
    case v1::ExitStatus::kExecFailure:
      // A container engine that failed, with the code that engines have for that.
      if (status.exec_failure().step() == "engine") return kExitEngineFailed;
      // ENOENT of chdir and the like says nothing about the program.
      return status.exec_failure().error_number() == ENOENT &&
                     status.exec_failure().step() != "chdir"
                 ? kExitNotFound
                 : kExitCannotExecute;
    case v1::ExitStatus::OUTCOME_NOT_SET:
      break;
  }
  return kExitInternal;
}

internal::Outcome CancelledOutcome(const CancelWish& wish) {
  const int signal = wish.signal > 0 && wish.signal <= 64 ? wish.signal : SIGTERM;
  std::string reason = wish.reason.empty() ? fmt::format("cancelled ({})", SignalName(signal))
                                           : fmt::format("cancelled: {}", OneLine(wish.reason));
  return Make(Job::CANCELLED, Job::USER, kExitSignalBase + signal, std::move(reason));
}

internal::Outcome OutcomeOf(const JobRecord& job) {
  const AttemptRecord& attempt = job.attempts.back();
  internal::Outcome outcome = OutcomeOfRanks(job, attempt);
  std::vector<std::string> left;
  for (const NodeProgress& node : attempt.nodes) {
    for (const std::string& process : node.unkillable) {
      left.push_back(fmt::format("{} on {}", OneLine(process), node.host));
    }
  }
  if (left.empty()) return outcome;
  if (outcome.state() != Job::FAILED) {
    outcome.set_state(Job::FAILED);
    outcome.set_cause(Job::NODE_LOST);
    outcome.set_exit_code(kExitNodeLost);
  }
  outcome.set_reason(
      fmt::format("{}; could not be killed: {}", outcome.reason(), JoinNames(left, 16)));
  return outcome;
}

bool WantsAnotherAttempt(const JobRecord& job, const internal::Outcome& outcome) {
  if (job.cancel.has_value() || outcome.state() != Job::FAILED || !job.spec->has_restart()) {
    return false;
  }
  const v1::RestartPolicy& policy = job.spec->restart();
  if (job.attempts.size() >= policy.max_attempts()) return false;
  for (const NodeProgress& node : job.attempts.back().nodes) {
    if (!node.unkillable.empty()) return false;
  }
  if (outcome.cause() == Job::STALLED) return job.spec->stall().action() == "restart";
  std::string_view class_name;
  if (outcome.cause() == Job::RANK_FAILED) class_name = "rank-failed";
  if (outcome.cause() == Job::NODE_LOST) class_name = "node-lost";
  if (class_name.empty()) return false;
  return policy.on().empty() ||
         std::any_of(policy.on().begin(), policy.on().end(),
                     [&](const std::string& on) { return on == class_name; });
}

}  // namespace muster
