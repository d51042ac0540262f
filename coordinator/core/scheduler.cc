#include "coordinator/core/scheduler.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/annotate.h"
#include "coordinator/core/job_text.h"
#include "coordinator/plan/plan_job.h"

namespace muster {
namespace {

std::string Named(const v1::HostEntry& host) {
  return host.source().empty() ? host.host() : fmt::format("{} ({})", host.host(), host.source());
}

// Nodes on which something of an earlier attempt may still run.
std::vector<std::string> Unfenced(const JobRecord& job, const NodeInventory& inventory) {
  std::vector<std::string> names;
  absl::flat_hash_map<std::string_view, const std::string*> boots;
  for (const AttemptRecord& attempt : job.attempts) {
    for (const NodeProgress& node : attempt.nodes) {
      if (node.gone) continue;
      if (boots.empty()) {
        for (size_t i = 0; i < inventory.nodes.size(); ++i) {
          boots[inventory.nodes[i].id.value()] = &inventory.identities[i].boot_id;
        }
      }
      const auto it = boots.find(node.node.value());
      if (it != boots.end() && *it->second != node.boot_id) continue;
      names.push_back(
          fmt::format("{} has not confirmed that attempt {} is gone", node.host, attempt.number));
    }
  }
  return names;
}

internal::AttemptPlanned ToEvent(const JobRecord& job, const NodeInventory& inventory,
                                 const std::vector<size_t>& node_of_host,
                                 const std::vector<NodeSlots>& slots, const v1::Plan& plan) {
  internal::AttemptPlanned event;
  event.set_attempt(static_cast<uint32_t>(job.attempts.size()) + 1);
  *event.mutable_warnings() = plan.warnings();
  for (int i = 0; i < plan.nodes_size(); ++i) {
    const v1::PlannedNode& planned = plan.nodes(i);
    internal::PlannedHost& node = *event.add_nodes();
    node.set_host(planned.host());
    node.set_node_id(planned.node_id());
    node.set_boot_id(inventory.identities[node_of_host[i]].boot_id);
    node.set_journal_id(inventory.identities[node_of_host[i]].journal_id);
    node.set_slots_are_modules(slots[i].are_modules);
    for (const v1::RankSpec& rank : planned.launch().ranks()) {
      internal::PlannedRank& out = *event.add_ranks();
      out.set_node_index(i);
      out.set_local_rank(rank.local_rank());
      out.set_slot(rank.slot());
    }
  }
  return event;
}

}  // namespace

PlacementResult PlaceJob(const JobRecord& job, const NodeInventory& inventory,
                         const CardUseOf& card_use) {
  PlacementResult result;
  Placement& placement = result.placement;
  const auto& hosts = job.spec->hosts();
  const HostMatches matches = MatchHosts(hosts, inventory.nodes);
  result.node_of_host.resize(hosts.size());
  std::vector<size_t> node_of_host(hosts.size());
  for (int i = 0; i < hosts.size(); ++i) {
    if (!matches.node[i].has_value()) continue;
    node_of_host[i] = *matches.node[i];
    result.node_of_host[i] = inventory.nodes[node_of_host[i]].id;
  }
  if (!matches.errors.empty()) {
    placement.error = JoinNames(matches.errors, 100);
    return result;
  }
  for (size_t index : matches.missing) {
    placement.missing.push_back(Named(hosts[static_cast<int>(index)]));
  }
  if (!placement.missing.empty()) {
    placement.reason = fmt::format("waiting for {} of {} hosts: {}", placement.missing.size(),
                                   hosts.size(), JoinNames(placement.missing, 8));
    return result;
  }
  placement.hosts_are_there = true;
  placement.missing = Unfenced(job, inventory);
  if (!placement.missing.empty()) {
    placement.reason = fmt::format("waiting: {}", JoinNames(placement.missing, 8));
    return result;
  }
  std::vector<NodeSlots> slots;
  for (size_t index : node_of_host) {
    NodeSlots& node = slots.emplace_back(SlotsOf(inventory.nodes[index], job.spec->devices()));
    if (node.are_modules && card_use) {
      node.use = card_use(node.node, inventory.identities[index].boot_id);
    }
  }
  const absl::StatusOr<v1::Plan> plan = muster::PlanJob(*job.spec, slots, PlanDetail::kLayout);
  if (!plan.ok()) {
    placement.error = OneLine(MessageOf(plan.status()));
    return result;
  }
  placement.planned = ToEvent(job, inventory, node_of_host, slots, *plan);
  return result;
}

std::vector<std::string> HeldByEnded(const internal::AttemptPlanned& planned,
                                     const JobIndex& jobs) {
  std::vector<absl::flat_hash_set<uint32_t>> wanted(planned.nodes_size());
  for (const internal::PlannedRank& rank : planned.ranks()) {
    wanted[rank.node_index()].insert(rank.slot());
  }
  std::vector<std::string> held;
  for (int i = 0; i < planned.nodes_size(); ++i) {
    const internal::PlannedHost& host = planned.nodes(i);
    for (const AttemptNodeRef& ref : jobs.OnNode(NodeId(host.node_id()))) {
      const AttemptRecord& attempt = *ref.job->record.FindAttempt(ref.attempt);
      const NodeProgress& node = attempt.nodes[ref.node_index];
      const bool ends = attempt.over() || (attempt.stop.has_value() && host.slots_are_modules());
      if (!ends || node.gone || node.boot_id != host.boot_id()) continue;
      // Cards and plain slots have nothing to do with each other.
      if (node.slots_are_modules != host.slots_are_modules()) continue;
      const auto rank = std::ranges::find_if(
          node.ranks, [&](uint32_t r) { return wanted[i].contains(attempt.ranks[r].slot); });
      if (rank == node.ranks.end()) continue;
      held.push_back(fmt::format("{} has not confirmed that job {}, which had slot {}, is gone",
                                 host.host(), ref.job->id.value(), attempt.ranks[*rank].slot));
    }
  }
  return held;
}

absl::StatusOr<v1::Plan> ReplanAttempt(const JobRecord& job, const AttemptRecord& attempt) {
  std::vector<NodeSlots> slots;
  for (const NodeProgress& node : attempt.nodes) {
    NodeSlots& out = slots.emplace_back();
    out.node = node.node;
    out.are_modules = node.slots_are_modules;
    for (uint32_t rank : node.ranks) out.slots.push_back(attempt.ranks[rank].slot);
  }
  absl::StatusOr<v1::Plan> plan = muster::PlanJob(*job.spec, slots, PlanDetail::kLayout);
  if (!plan.ok()) return Annotate(plan.status(), "the job cannot be planned again");
  bool same = plan->world_size() == attempt.ranks.size() &&
              static_cast<size_t>(plan->nodes_size()) == attempt.nodes.size();
  for (size_t i = 0; same && i < attempt.nodes.size(); ++i) {
    const auto& ranks = plan->nodes(static_cast<int>(i)).launch().ranks();
    same = std::equal(ranks.begin(), ranks.end(), attempt.nodes[i].ranks.begin(),
                      attempt.nodes[i].ranks.end(), [&](const v1::RankSpec& spec, uint32_t rank) {
                        return spec.rank() == rank && spec.slot() == attempt.ranks[rank].slot &&
                               spec.local_rank() == attempt.ranks[rank].local_rank;
                      });
  }
  if (!same) return absl::InternalError("the job is planned differently by this version");
  return plan;
}

}  // namespace muster
