#include "coordinator/core/job_policy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "common/base/signal_names.h"
#include "coordinator/core/cluster_check.h"
#include "coordinator/core/job_outcome.h"
#include "coordinator/core/job_text.h"
#include "coordinator/core/proto_time.h"

namespace muster {
namespace {

using internal::JobEvent;
using v1::Job;

constexpr size_t kNamesShown = 1000;
// Behind those of PREPARED and RUNNING, and one more when there was a probe between them; later
// orders to stop count on from here.
constexpr uint64_t kStoppedGeneration = 3;

Duration GraceOf(const JobRecord& job) {
  const Duration own = job.spec->has_grace() ? ToDuration(job.spec->grace()) : kDefaultGrace;
  return job.cancel.has_value() && job.cancel->grace.has_value()
             ? (job.cancel->late ? std::min(own, *job.cancel->grace) : *job.cancel->grace)
             : own;
}

TimePoint StartDeadline(const JobRecord& job, const JobTimes& times) {
  return std::max(times.waiting_since + StartTimeout(job), times.patience_until);
}

JobEvent StopEvent(const JobRecord& job, Job::Cause cause, std::string reason) {
  JobEvent event;
  internal::StopOrdered* stop = event.mutable_stop_ordered();
  stop->set_cause(cause);
  stop->set_reason(std::move(reason));
  *stop->mutable_grace() = ToProtoDuration(GraceOf(job));
  return event;
}

JobEvent EndedEvent(internal::Outcome outcome) {
  JobEvent event;
  *event.mutable_ended()->mutable_outcome() = std::move(outcome);
  return event;
}

JobEvent StopForCancel(const JobRecord& job, const AttemptRecord& attempt) {
  if (job.cancel->late && attempt.all_zero()) {
    return StopEvent(job, Job::NONE, "all ranks had ended when the user cancelled the job");
  }
  return StopEvent(job, Job::USER, CancelledOutcome(*job.cancel).reason());
}

JobEvent StopForFailure(const JobRecord& job, const AttemptRecord& attempt) {
  return StopEvent(job, attempt.failure->cause, attempt.failure->failure.message());
}

// One sentence with every reason of every node.
std::string PrepareFailures(const AttemptRecord& attempt) {
  std::vector<std::string> parts;
  for (const NodeProgress& node : attempt.nodes) {
    if (node.phase != v1::JobNode::PREPARE_FAILED) continue;
    std::vector<std::string> problems;
    for (const v1::Problem& problem : node.problems) problems.push_back(OneLine(problem.message()));
    parts.push_back(fmt::format("{}: {}", node.host,
                                problems.empty() ? "no reason given" : JoinNames(problems, 20)));
  }
  return fmt::format("{} of {} nodes could not prepare: {}", parts.size(), attempt.nodes.size(),
                     fmt::join(parts, "; "));
}

// What nodes are told about an attempt with a probe is one generation newer.
uint64_t ProbeGenerations(const AttemptRecord& attempt) {
  return attempt.probe.has_value() ? 1 : 0;
}

Decision DecidePending(const JobRecord& job, const JobTimes& times, const Placement* placement,
                       TimePoint now) {
  Decision decision;
  if (job.cancel.has_value()) {
    decision.events.push_back(EndedEvent(CancelledOutcome(*job.cancel)));
    return decision;
  }
  internal::Outcome failed;
  failed.set_state(Job::FAILED);
  failed.set_exit_code(kExitNotStarted);
  if (placement != nullptr && !placement->error.empty()) {
    failed.set_cause(Job::PREPARE_FAILED);
    failed.set_reason(placement->error);
    decision.events.push_back(EndedEvent(std::move(failed)));
    return decision;
  }
  if (placement != nullptr && placement->planned.has_value()) {
    *decision.events.emplace_back().mutable_planned() = *placement->planned;
    return decision;
  }
  const TimePoint deadline = StartDeadline(job, times);
  if (now < deadline) {
    decision.wake = deadline;
    return decision;
  }
  if (placement == nullptr) return decision;  // The caller asks again with one.
  failed.set_cause(Job::NODE_MISSING);
  const std::string missing = JoinNames(placement->missing, kNamesShown);
  const std::string waited = DescribeDuration(StartTimeout(job));
  failed.set_reason(placement->hosts_are_there
                        ? fmt::format("could not start within {}: {}", waited, missing)
                        : fmt::format("{} of {} hosts missing after {}: {}",
                                      placement->missing.size(), job.spec->hosts_size(), waited,
                                      missing));
  decision.events.push_back(EndedEvent(std::move(failed)));
  return decision;
}

// An attempt whose nodes try where the ranks could meet. Nothing: it starts, or goes on preparing.
std::optional<Decision> DecideProbing(const JobRecord& job, const AttemptRecord& attempt,
                                      const JobTimes& times, const PolicyLimits& limits,
                                      TimePoint now) {
  Decision decision;
  if (ProbeAnswered(attempt)) {
    if (ReachedByAll(attempt).has_value()) return std::nullopt;
    decision.events.push_back(
        StopEvent(job, Job::PREPARE_FAILED, DescribeUnreached(attempt, limits.probe_limit)));
    return decision;
  }
  if (attempt.prepared_nodes != attempt.nodes.size()) return std::nullopt;
  const TimePoint until =
      std::max(times.probing_since.value_or(now) + limits.probe_limit, times.patience_until);
  if (now < until) {
    decision.wake = until;
  } else {
    decision.events.push_back(
        StopEvent(job, Job::PREPARE_FAILED, DescribeUnreached(attempt, limits.probe_limit)));
  }
  return decision;
}

// Set when the nodes, each of which is prepared, do not fit together.
std::optional<JobEvent> StopForCluster(const JobRecord& job, const AttemptRecord& attempt) {
  const std::vector<std::string> reasons = FindingsOf(job, attempt).reasons;
  if (reasons.empty()) return std::nullopt;
  return StopEvent(job, Job::PREPARE_FAILED,
                   fmt::format("the nodes do not fit together: {}", fmt::join(reasons, "; ")));
}

Decision DecidePreparing(const JobRecord& job, const AttemptRecord& attempt, const JobTimes& times,
                         const ProbeView* probe, const PolicyLimits& limits, TimePoint now) {
  Decision decision;
  if (job.cancel.has_value()) {
    decision.events.push_back(StopForCancel(job, attempt));
    return decision;
  }
  if (attempt.failure.has_value()) {
    decision.events.push_back(StopForFailure(job, attempt));
    return decision;
  }
  const TimePoint deadline = StartDeadline(job, times);
  if (attempt.prepare_failed_nodes > 0) {
    const bool all_answered =
        attempt.prepared_nodes + attempt.settled_nodes == attempt.nodes.size();
    const TimePoint until = std::min(
        deadline, times.prepare_failed_since.value_or(now) + limits.prepare_failure_window);
    if (all_answered || now >= until) {
      decision.events.push_back(StopEvent(job, Job::PREPARE_FAILED, PrepareFailures(attempt)));
    } else {
      decision.wake = until;
    }
    return decision;
  }
  if (limits.probe_rendezvous && MayProbe(attempt)) {
    if (probe != nullptr) {
      if (std::optional<internal::ProbeOrdered> order = PlanProbe(job, attempt, *probe)) {
        *decision.events.emplace_back().mutable_probe_ordered() = *std::move(order);
        return decision;
      }
    } else if (now < deadline) {
      decision.wake = deadline;
      return decision;
    }
  }
  if (attempt.probe.has_value()) {
    if (std::optional<Decision> probing = DecideProbing(job, attempt, times, limits, now)) {
      return *std::move(probing);
    }
  }
  if (attempt.prepared_nodes == attempt.nodes.size()) {
    if (std::optional<JobEvent> stop = StopForCluster(job, attempt)) {
      decision.events.push_back(*std::move(stop));
      return decision;
    }
    internal::GangStarted* start = decision.events.emplace_back().mutable_gang_started();
    start->set_attempt(attempt.number);
    *start->mutable_rendezvous() = ChooseRendezvous(job, attempt);
    return decision;
  }
  if (now < deadline) {
    decision.wake = deadline;
    return decision;
  }
  std::vector<std::string> silent;
  for (const NodeProgress& node : attempt.nodes) {
    if (node.phase == v1::JobNode::PREPARING) silent.push_back(node.host);
  }
  decision.events.push_back(StopEvent(
      job, Job::PREPARE_FAILED,
      fmt::format("{} of {} nodes not prepared after {}: {}", silent.size(), attempt.nodes.size(),
                  DescribeDuration(StartTimeout(job)), JoinNames(silent, kNamesShown))));
  return decision;
}

JobEvent FinishEvent(const JobRecord& job) {
  internal::Outcome outcome = OutcomeOf(job);
  if (!WantsAnotherAttempt(job, outcome)) return EndedEvent(std::move(outcome));
  JobEvent event;
  *event.mutable_attempt_ended()->mutable_outcome() = std::move(outcome);
  return event;
}

Decision DecideRunning(const JobRecord& job, const AttemptRecord& attempt, const JobTimes& times,
                       TimePoint now) {
  Decision decision;
  if (attempt.failure.has_value()) {
    decision.events.push_back(StopForFailure(job, attempt));
    return decision;
  }
  if (job.cancel.has_value()) {
    decision.events.push_back(StopForCancel(job, attempt));
    return decision;
  }
  if (attempt.all_settled()) {
    decision.events.push_back(FinishEvent(job));
    return decision;
  }
  if (job.spec->has_time_limit()) {
    const Duration limit = ToDuration(job.spec->time_limit());
    const TimePoint until = times.running_since.value_or(now) + limit;
    if (now < until) {
      decision.wake = until;
    } else if (!attempt.all_zero()) {
      decision.events.push_back(
          StopEvent(job, Job::TIME_LIMIT,
                    fmt::format("the time limit of {} ran out", DescribeDuration(limit))));
    }
  }
  return decision;
}

Decision DecideStopping(const JobRecord& job, const AttemptRecord& attempt, const JobTimes& times,
                        const PolicyLimits& limits, TimePoint now) {
  Decision decision;
  if (attempt.all_settled()) {
    decision.events.push_back(FinishEvent(job));
    return decision;
  }
  const TimePoint until =
      times.stopping_since.value_or(now) + attempt.stop->grace + limits.stop_confirmation_limit;
  if (now < until) {
    decision.wake = until;
    return decision;
  }
  for (uint32_t i = 0; i < attempt.nodes.size(); ++i) {
    if (attempt.nodes[i].settled()) continue;
    internal::AttemptNodeLost* lost = decision.events.emplace_back().mutable_node_lost();
    lost->set_attempt(attempt.number);
    lost->set_node_index(i);
    lost->set_reason(
        fmt::format("it did not confirm within {} that its ranks are gone",
                    DescribeDuration(attempt.stop->grace + limits.stop_confirmation_limit)));
  }
  return decision;
}

}  // namespace

Duration StartTimeout(const JobRecord& job) {
  return job.spec->has_start_timeout() ? ToDuration(job.spec->start_timeout())
                                       : kDefaultStartTimeout;
}

Decision Decide(const JobRecord& job, const JobTimes& times, const Placement* placement,
                const ProbeView* probe, const PolicyLimits& limits, TimePoint now) {
  if (job.state == Job::PENDING) return DecidePending(job, times, placement, now);
  const AttemptRecord* attempt = job.live_attempt();
  if (attempt == nullptr) return {};
  switch (job.state) {
    case Job::PREPARING:
      return DecidePreparing(job, *attempt, times, probe, limits, now);
    case Job::RUNNING:
      return DecideRunning(job, *attempt, times, now);
    case Job::STOPPING:
      return DecideStopping(job, *attempt, times, limits, now);
    default:
      return {};
  }
}

uint64_t GenerationOf(const AttemptRecord& attempt) {
  const uint64_t more = ProbeGenerations(attempt);
  if (attempt.stop.has_value()) return kStoppedGeneration + more + attempt.stop->orders - 1;
  if (attempt.over()) return kStoppedGeneration + more;
  return (attempt.rendezvous.has_value() ? 2 : 1) + more;
}

v1::Assignment AssignmentFor(const JobId& job, const AttemptRecord& attempt, uint32_t node_index,
                             bool released) {
  const NodeProgress& node = attempt.nodes[node_index];
  v1::Assignment assignment;
  assignment.mutable_key()->set_job_id(job.value());
  assignment.mutable_key()->set_attempt(attempt.number);
  assignment.set_generation(GenerationOf(attempt));
  if (attempt.rendezvous.has_value()) *assignment.mutable_rendezvous() = *attempt.rendezvous;
  if (attempt.over() && node.gone && released) {
    assignment.set_generation(kReleasedGeneration);
    assignment.set_desired(v1::Assignment::RELEASED);
  } else if (attempt.stop.has_value()) {
    assignment.set_desired(v1::Assignment::STOPPED);
    *assignment.mutable_stop_grace() = ToProtoDuration(attempt.stop->grace);
  } else if (attempt.over() || node.phase == v1::JobNode::LOST) {
    // A lost node must not run anything, whatever the others do.
    assignment.set_desired(v1::Assignment::STOPPED);
    assignment.set_generation(kStoppedGeneration + ProbeGenerations(attempt));
  } else if (attempt.rendezvous.has_value()) {
    assignment.set_desired(v1::Assignment::RUNNING);
  } else {
    assignment.set_desired(v1::Assignment::PREPARED);
    if (node.probe_asked) {
      *assignment.mutable_probe() = *attempt.probe;
    } else {
      // Nothing is new for it.
      assignment.set_generation(1);
    }
  }
  return assignment;
}

}  // namespace muster
