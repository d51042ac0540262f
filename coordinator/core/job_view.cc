#include "coordinator/core/job_view.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/filled_trait.h"
#include "coordinator/core/proto_time.h"

namespace muster {
namespace {

void ViewRank(const RankProgress& rank, uint32_t number, v1::JobRank& out) {
  out.set_rank(number);
  out.set_node_index(rank.node_index);
  out.set_local_rank(rank.local_rank);
  out.set_slot(rank.slot);
  out.set_state(rank.state);
  out.set_pid(rank.pid);
  if (rank.state == v1::JobRank::EXITED) *out.mutable_status() = rank.status;
  if (rank.start_time.has_value()) *out.mutable_start_time() = *rank.start_time;
  if (rank.end_time.has_value()) *out.mutable_end_time() = *rank.end_time;
  out.set_log_closed(rank.log_closed);
  out.set_log_size(rank.log_size);
  out.set_written_bytes(rank.written_bytes);
  out.set_dropped_bytes(rank.dropped_bytes);
  out.set_lost_reason(rank.lost_reason);
  if (rank.placement.has_value()) *out.mutable_placement() = *rank.placement;
}

void ViewAttemptNode(const NodeProgress& node, uint32_t index, const NodeTable& table,
                     bool attempt_over, v1::JobNode& out) {
  out.set_index(index);
  out.set_host(node.host);
  out.set_node_id(node.node.value());
  out.set_phase(node.phase);
  for (const v1::Problem& problem : node.problems) *out.add_problems() = problem;
  if (!node.report.results().empty()) {
    *out.mutable_report()->mutable_results() = node.report.results();
  }
  for (const v1::NodeTrait& trait : node.report.traits()) {
    if (trait.name().starts_with(kFilledTrait)) *out.mutable_report()->add_traits() = trait;
  }
  if (attempt_over || node.settled()) return;
  const NodeEntry* entry = table.Find(node.node);
  out.set_suspect(entry == nullptr || entry->state != v1::Node::ALIVE);
}

// The hosts of a job that waits.
void ViewHosts(const JobEntry& entry, v1::Job& out) {
  const auto& hosts = entry.record.spec->hosts();
  for (int i = 0; i < hosts.size(); ++i) {
    v1::JobNode& node = *out.add_nodes();
    node.set_index(i);
    node.set_host(hosts[i].host());
    node.set_phase(v1::JobNode::WAITING);
    if (static_cast<size_t>(i) < entry.node_of_host.size()) {
      node.set_node_id(entry.node_of_host[i].value());
    }
  }
}

std::string_view ReasonOf(const JobEntry& entry) {
  const JobRecord& record = entry.record;
  if (record.outcome.has_value()) return record.outcome->reason();
  if (record.state == v1::Job::PENDING) return entry.waiting_reason;
  const AttemptRecord* attempt = record.live_attempt();
  if (attempt != nullptr && attempt->stop.has_value()) return attempt->stop->reason;
  return {};
}

}  // namespace

v1::Job ViewJob(const JobEntry& entry, const NodeTable& table, const JobViewScope& scope) {
  const JobRecord& record = entry.record;
  v1::Job out;
  out.set_job_id(entry.id.value());
  out.set_name(record.spec->name());
  out.set_state(record.state);
  out.set_reason(std::string(ReasonOf(entry)));
  out.set_revision(record.revision + entry.volatile_revision);
  *out.mutable_create_time() = ToTimestamp(record.create_time);
  if (record.end_time.has_value()) *out.mutable_end_time() = ToTimestamp(*record.end_time);
  for (const std::string& warning : record.warnings) out.add_warnings(warning);
  if (record.outcome.has_value()) {
    out.set_cause(record.outcome->cause());
    out.set_exit_code(record.outcome->exit_code());
  }
  const bool waiting = record.state == v1::Job::PENDING;
  if (!record.attempts.empty()) {
    const AttemptRecord& attempt = record.attempts.back();
    out.set_attempt(attempt.number);
    out.set_world_size(static_cast<uint32_t>(attempt.ranks.size()));
    if (!record.outcome.has_value() && attempt.stop.has_value()) {
      out.set_cause(attempt.failure.has_value() ? attempt.failure->cause : attempt.stop->cause);
    }
    if (attempt.rendezvous.has_value()) *out.mutable_rendezvous() = *attempt.rendezvous;
    if (attempt.failure.has_value()) *out.mutable_first_failure() = attempt.failure->failure;
    out.set_stopped_ranks(attempt.stopped_ranks);
    if (attempt.all_running_time.has_value()) {
      *out.mutable_start_time() = ToTimestamp(*attempt.all_running_time);
    }
    const bool volatile_changed = entry.volatile_revision > scope.since_volatile_revision;
    for (uint32_t i = 0; scope.nodes && !waiting && i < attempt.nodes.size(); ++i) {
      if (scope.since_revision != 0 && attempt.node_revision[i] <= scope.since_revision &&
          !volatile_changed) {
        continue;
      }
      ViewAttemptNode(attempt.nodes[i], i, table, attempt.over(), *out.add_nodes());
    }
    for (uint32_t i = 0; scope.ranks && i < attempt.ranks.size(); ++i) {
      if (scope.since_revision != 0 && attempt.rank_revision[i] <= scope.since_revision) continue;
      ViewRank(attempt.ranks[i], i, *out.add_ranks());
    }
  }
  if (scope.nodes && (waiting || record.attempts.empty())) ViewHosts(entry, out);
  return out;
}

v1::Node ViewNode(const NodeEntry& node, const NodeTable& table, const JobIndex& jobs,
                  TimePoint now) {
  v1::Node out;
  out.set_node_id(node.id.value());
  out.set_state(node.state);
  *out.mutable_facts() = node.record.facts();
  out.set_boot_id(node.record.boot_id());
  if (node.last_seen.has_value()) {
    *out.mutable_last_seen() = ToTimestamp(*node.last_seen);
  } else if (node.record.has_last_welcome()) {
    *out.mutable_last_seen() = node.record.last_welcome();
  }
  out.set_reason(table.ReasonOf(node, now));
  if (const std::optional<Duration> offset = node.clock_offset()) {
    *out.mutable_clock_offset() = ToProtoDuration(*offset);
  }
  if (!node.alarm.empty()) out.add_alarms(node.alarm);
  if (!node.readings.empty()) {
    out.mutable_readings()->Assign(node.readings.begin(), node.readings.end());
    *out.mutable_readings_time() = ToTimestamp(node.readings_time);
  }
  std::set<std::string> ids;
  for (const AttemptNodeRef& ref : jobs.OnNode(node.id)) ids.insert(ref.job->id.value());
  for (const std::string& id : ids) out.add_job_ids(id);
  return out;
}

}  // namespace muster
