#include "coordinator/core/job_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/filled_trait.h"
#include "coordinator/core/cluster_check.h"
#include "coordinator/core/job_fold.h"
#include "coordinator/core/proto_time.h"
#include "coordinator/core/rendezvous.h"

namespace muster {
namespace {

using v1::Job;

struct Transition {
  Job::State from;
  Job::State to;
};

// Every move that a job can make. Terminal states have none.
constexpr std::array kTransitions = {
    Transition{Job::STATE_UNSPECIFIED, Job::PENDING},  // submitted
    Transition{Job::PENDING, Job::PREPARING},          // planned
    Transition{Job::PENDING, Job::FAILED},             // a host missing, or no plan
    Transition{Job::PENDING, Job::CANCELLED},          //
    Transition{Job::PREPARING, Job::RUNNING},          // every node prepared
    Transition{Job::PREPARING, Job::STOPPING},         // stop ordered
    Transition{Job::RUNNING, Job::STOPPING},           // stop ordered
    Transition{Job::RUNNING, Job::SUCCEEDED},          // every rank ended with 0, nothing is left
    Transition{Job::RUNNING, Job::FAILED},             // the same, but something cannot be killed
    Transition{Job::STOPPING, Job::PENDING},           // another attempt
    Transition{Job::STOPPING, Job::SUCCEEDED},         // cancelled when all had ended with 0
    Transition{Job::STOPPING, Job::FAILED},            //
    Transition{Job::STOPPING, Job::CANCELLED},         //
};

void Submit(JobRecord& job, const internal::JobSubmitted& event, WallTime time) {
  if (!MayMove(job.state, Job::PENDING) || job.state != Job::STATE_UNSPECIFIED) return;
  job.request_id = event.request_id();
  job.submitter = event.submitter();
  job.spec = std::make_shared<const v1::JobSpec>(event.spec());
  job.state = Job::PENDING;
  job.create_time = time;
  job.waiting_since = time;
  for (const std::string& warning : event.warnings()) AddWarning(job, warning);
  ++job.revision;
}

void Plan(JobRecord& job, const internal::AttemptPlanned& event, WallTime time) {
  if (!MayMove(job.state, Job::PREPARING) || job.cancel.has_value()) return;
  if (event.attempt() != job.attempts.size() + 1 || event.nodes().empty() ||
      event.ranks().empty()) {
    return;
  }
  for (const internal::PlannedRank& rank : event.ranks()) {
    if (rank.node_index() >= static_cast<uint32_t>(event.nodes_size())) return;
  }
  ++job.revision;
  AttemptRecord& attempt = job.attempts.emplace_back();
  attempt.number = event.attempt();
  attempt.planned_time = time;
  attempt.nodes.resize(event.nodes_size());
  for (int i = 0; i < event.nodes_size(); ++i) {
    NodeProgress& node = attempt.nodes[i];
    node.host = event.nodes(i).host();
    node.node = NodeId(event.nodes(i).node_id());
    node.boot_id = event.nodes(i).boot_id();
    node.journal_id = event.nodes(i).journal_id();
    node.slots_are_modules = event.nodes(i).slots_are_modules();
  }
  attempt.ranks.resize(event.ranks_size());
  for (int i = 0; i < event.ranks_size(); ++i) {
    RankProgress& rank = attempt.ranks[i];
    rank.node_index = event.ranks(i).node_index();
    rank.local_rank = event.ranks(i).local_rank();
    rank.slot = event.ranks(i).slot();
    attempt.nodes[rank.node_index].ranks.push_back(i);
  }
  attempt.node_revision.assign(attempt.nodes.size(), job.revision);
  attempt.rank_revision.assign(attempt.ranks.size(), job.revision);
  for (const std::string& warning : event.warnings()) AddWarning(job, warning);
  job.state = Job::PREPARING;
}

void OrderProbe(JobRecord& job, const internal::ProbeOrdered& event) {
  AttemptRecord* attempt = LiveAttempt(job);
  if (attempt == nullptr || event.attempt() != attempt->number || job.state != Job::PREPARING ||
      job.cancel.has_value() || attempt->failure.has_value() || attempt->probe.has_value() ||
      event.nodes().empty() || event.probe().addresses().empty()) {
    return;
  }
  for (const uint32_t index : event.nodes()) {
    if (index >= attempt->nodes.size()) return;
  }
  ++job.revision;
  attempt->probe = event.probe();
  for (const uint32_t index : event.nodes()) {
    NodeProgress& node = attempt->nodes[index];
    if (!std::exchange(node.probe_asked, true)) ++attempt->probes_asked;
  }
}

// What nodes warned of while they prepared becomes the job's: a line for those that say the same.
void TellNodeWarnings(JobRecord& job, AttemptRecord& attempt) {
  for (std::string& warning : FoldedWarnings(attempt)) AddWarning(job, std::move(warning));
  for (NodeProgress& node : attempt.nodes) node.warnings.clear();
}

void StartGang(JobRecord& job, const internal::GangStarted& event, WallTime time) {
  AttemptRecord* attempt = LiveAttempt(job);
  if (attempt == nullptr || event.attempt() != attempt->number || job.cancel.has_value() ||
      attempt->prepared_nodes != attempt->nodes.size() || attempt->failure.has_value() ||
      !MayMove(job.state, Job::RUNNING)) {
    return;
  }
  ++job.revision;
  job.state = Job::RUNNING;
  TellNodeWarnings(job, *attempt);
  for (std::string& warning : FindingsOf(job, *attempt).warnings) {
    AddWarning(job, std::move(warning));
  }
  // They were compared; nobody needs them any more, but for those that say where variables are
  // from.
  for (NodeProgress& node : attempt->nodes) {
    auto& traits = *node.report.mutable_traits();
    traits.erase(std::remove_if(traits.begin(), traits.end(),
                                [](const v1::NodeTrait& trait) {
                                  return !trait.name().starts_with(kFilledTrait);
                                }),
                 traits.end());
  }
  attempt->rendezvous = event.rendezvous();
  if (std::string detour = DescribeDetour(*attempt, event.rendezvous().address());
      !detour.empty()) {
    AddWarning(job, std::move(detour));
  }
  attempt->gang_start_time = time;
  for (uint32_t i = 0; i < attempt->nodes.size(); ++i) {
    attempt->nodes[i].phase = v1::JobNode::RUNNING;
    attempt->node_revision[i] = job.revision;
  }
}

// The grace that a wish asks for.
Duration GraceOf(const JobRecord& job, const std::optional<Duration>& asked) {
  if (asked.has_value()) return *asked;
  return job.spec->has_grace() ? ToDuration(job.spec->grace()) : kDefaultGrace;
}

void Cancel(JobRecord& job, const internal::CancelRequested& event) {
  if (job.state == Job::STATE_UNSPECIFIED || job.terminal()) return;
  std::optional<Duration> grace;
  if (event.has_grace()) grace = ToDuration(event.grace());
  AttemptRecord* attempt = LiveAttempt(job);
  bool changed = false;
  if (!job.cancel.has_value()) {
    CancelWish wish{.signal = event.signal(), .grace = grace, .reason = event.reason()};
    wish.late = attempt != nullptr &&
                (attempt->failure.has_value() || attempt->stop.has_value() || attempt->all_zero());
    job.cancel = std::move(wish);
    changed = true;
  } else if (GraceOf(job, grace) < GraceOf(job, job.cancel->grace)) {
    job.cancel->grace = GraceOf(job, grace);
    changed = true;
  }
  if (attempt != nullptr && attempt->stop.has_value() &&
      GraceOf(job, grace) < attempt->stop->grace) {
    attempt->stop->grace = GraceOf(job, grace);
    ++attempt->stop->orders;
    changed = true;
  }
  if (changed) ++job.revision;
}

void OrderStop(JobRecord& job, const internal::StopOrdered& event) {
  AttemptRecord* attempt = LiveAttempt(job);
  if (attempt == nullptr || !MayMove(job.state, Job::STOPPING)) return;
  ++job.revision;
  job.state = Job::STOPPING;
  attempt->stop = StopOrder{
      .cause = event.cause(), .reason = event.reason(), .grace = ToDuration(event.grace())};
  for (uint32_t i = 0; i < attempt->nodes.size(); ++i) {
    if (attempt->nodes[i].settled()) continue;
    attempt->nodes[i].phase = v1::JobNode::STOPPING;
    attempt->node_revision[i] = job.revision;
  }
}

void EndAttempt(JobRecord& job, const internal::AttemptEnded& event, WallTime time) {
  AttemptRecord* attempt = LiveAttempt(job);
  if (attempt == nullptr || job.cancel.has_value() || !MayMove(job.state, Job::PENDING)) return;
  ++job.revision;
  job.state = Job::PENDING;
  job.waiting_since = time;
  attempt->outcome = event.outcome();
  TellNodeWarnings(job, *attempt);
  AddWarning(job, fmt::format("attempt {} of {} failed, trying again: {}", attempt->number,
                              job.spec->restart().max_attempts(), event.outcome().reason()));
}

void End(JobRecord& job, const internal::JobEnded& event, WallTime time) {
  const Job::State to = event.outcome().state();
  if (!IsTerminal(to) || !MayMove(job.state, to)) return;
  ++job.revision;
  job.state = to;
  job.end_time = time;
  job.outcome = event.outcome();
  if (AttemptRecord* attempt = LiveAttempt(job)) {
    attempt->outcome = event.outcome();
    TellNodeWarnings(job, *attempt);
  }
}

}  // namespace

bool MayMove(Job::State from, Job::State to) {
  return std::any_of(kTransitions.begin(), kTransitions.end(),
                     [&](const Transition& t) { return t.from == from && t.to == to; });
}

bool IsTerminal(Job::State state) {
  return state == Job::SUCCEEDED || state == Job::FAILED || state == Job::CANCELLED;
}

AttemptRecord* LiveAttempt(JobRecord& job) {
  return job.attempts.empty() || job.attempts.back().over() ? nullptr : &job.attempts.back();
}

void AddWarning(JobRecord& job, std::string warning, size_t most) {
  constexpr char kMore[] = "there were more warnings like the last ones; they are left out";
  if (job.warnings.size() < most) {
    job.warnings.push_back(std::move(warning));
  } else if (std::find(job.warnings.begin(), job.warnings.end(), kMore) == job.warnings.end()) {
    job.warnings.push_back(kMore);
  }
}

JobRecord Apply(JobRecord job, const internal::JobEvent& event) {
  const WallTime time = ToWallTime(event.time());
  if (event.body_case() == internal::JobEvent::kSubmitted) {
    Submit(job, event.submitted(), time);
    return job;
  }
  if (job.state == Job::STATE_UNSPECIFIED) return job;
  switch (event.body_case()) {
    case internal::JobEvent::kPlanned:
      Plan(job, event.planned(), time);
      break;
    case internal::JobEvent::kReported:
      FoldReport(job, event.reported(), time);
      break;
    case internal::JobEvent::kNodeLost:
      FoldNodeLost(job, event.node_lost());
      break;
    case internal::JobEvent::kGangStarted:
      StartGang(job, event.gang_started(), time);
      break;
    case internal::JobEvent::kCancelRequested:
      Cancel(job, event.cancel_requested());
      break;
    case internal::JobEvent::kStopOrdered:
      OrderStop(job, event.stop_ordered());
      break;
    case internal::JobEvent::kAttemptEnded:
      EndAttempt(job, event.attempt_ended(), time);
      break;
    case internal::JobEvent::kEnded:
      End(job, event.ended(), time);
      break;
    case internal::JobEvent::kProbeOrdered:
      OrderProbe(job, event.probe_ordered());
      break;
    case internal::JobEvent::kSubmitted:
    case internal::JobEvent::BODY_NOT_SET:
      break;
  }
  return job;
}

}  // namespace muster
