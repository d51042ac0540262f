#include "coordinator/plan/plan_job.h"

#include <absl/container/flat_hash_map.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string_view>

#include "coordinator/plan/exec_limits.h"
#include "coordinator/plan/job_check.h"
#include "coordinator/plan/rank_env.h"
#include "coordinator/plan/slot_choice.h"
#include "coordinator/spec/selection.h"

namespace muster {
namespace {

constexpr int kDefaultGraceSeconds = 30;
constexpr std::string_view kDefaultInterpreter = "python3";

using Overrides = absl::flat_hash_map<std::string_view, const v1::NodeOverride*>;

// The argv of a rank on a node and, when ranks are told their local rank by argument, where it
// goes.
void SetProgram(const v1::Program& program, std::string_view interpreter, v1::LaunchSpec& launch) {
  if (program.kind() != v1::Program::COMMAND) {
    launch.add_argv(std::string(interpreter));
    launch.add_argv("-u");
    if (program.kind() == v1::Program::MODULE) launch.add_argv("-m");
  }
  // A script called `-x.py` must not be taken for an option of the interpreter.
  const bool looks_like_option =
      program.kind() == v1::Program::SCRIPT && program.target().starts_with('-');
  launch.add_argv(looks_like_option ? "./" + program.target() : program.target());
  if (program.local_rank_argument()) launch.set_local_rank_argument_index(launch.argv_size());
  for (const std::string& arg : program.args()) launch.add_argv(arg);
  if (program.kind() == v1::Program::SCRIPT) launch.set_script(program.target());
}

std::string_view FirstOf(std::string_view a, std::string_view b) { return a.empty() ? b : a; }

// Everything of a launch but ranks, rendezvous and environment.
v1::LaunchSpec CommonLaunch(const v1::JobSpec& spec, const v1::NodeOverride* override) {
  v1::LaunchSpec launch;
  const v1::NodeOverride& node = override ? *override : v1::NodeOverride::default_instance();
  SetProgram(
      spec.program(),
      FirstOf(FirstOf(node.interpreter(), spec.program().interpreter()), kDefaultInterpreter),
      launch);
  launch.set_working_directory(
      std::string(FirstOf(node.working_directory(), spec.working_directory())));
  launch.set_user(spec.user());
  if (spec.has_grace()) {
    *launch.mutable_stop_grace() = spec.grace();
  } else {
    launch.mutable_stop_grace()->set_seconds(kDefaultGraceSeconds);
  }
  if (spec.has_on_coordinator_loss()) {
    *launch.mutable_on_coordinator_loss() = spec.on_coordinator_loss();
  }
  if (spec.has_stall() && spec.stall().action() != "none") {
    *launch.mutable_stall_after() = spec.stall().after();
  }
  launch.set_log_quota_bytes(spec.log_quota_bytes());
  if (spec.bind() != "none") {
    launch.set_bind(spec.bind());
    launch.set_bind_core_list(spec.bind_core_list());
  }
  if (spec.has_container()) *launch.mutable_container() = spec.container();
  if (spec.has_device_wait()) *launch.mutable_device_wait() = spec.device_wait();
  *launch.mutable_skip_checks() = spec.skip_checks();
  *launch.mutable_require_checks() = spec.require_checks();
  launch.set_node_count(static_cast<uint32_t>(spec.hosts_size()));
  return launch;
}

// Reports what cannot be executed: once for the whole job, and for a host only what is its own.
class ExecCheck {
 public:
  ExecCheck(const v1::JobSpec& spec, const v1::LaunchSpec& common)
      : spec_(spec), job_reasons_(CheckExecutable(common.argv(), spec.env(), {})) {}

  void Check(const v1::LaunchSpec& launch, const v1::HostEntry& host, uint32_t first_rank,
             const v1::NodeOverride* override, Faults& faults) {
    if (!reported_ && !job_reasons_.empty()) {
      reported_ = true;
      for (const std::string& reason : job_reasons_) {
        faults.job.push_back(fmt::format("rank {} on {}{}: {}", first_rank, host.host(),
                                         spec_.hosts_size() > 1 ? " (and all others)" : "",
                                         reason));
      }
    }
    if (override == nullptr) return;
    for (const std::string& reason : CheckExecutable(launch.argv(), spec_.env(), override->env())) {
      if (std::find(job_reasons_.begin(), job_reasons_.end(), reason) != job_reasons_.end())
        continue;
      faults.job.push_back(fmt::format("rank {} on {}: {}", first_rank, host.host(), reason));
    }
  }

 private:
  const v1::JobSpec& spec_;
  const std::vector<std::string> job_reasons_;
  bool reported_ = false;
};

void WarnOfGroup(const v1::HostEntry& host, const std::vector<uint32_t>& slots, v1::Plan& plan) {
  if (IsGaudiGroup(slots)) return;
  plan.add_warnings(fmt::format(
      "{}: cards {} are not a group in which Gaudi cards reach each other directly (pairs "
      "0-1, 2-3, 4-5, 6-7; fours 0-3, 4-7)",
      Located(host), RangesText(slots)));
}

Overrides OverridesByHost(const v1::JobSpec& spec) {
  Overrides overrides;
  for (const v1::NodeOverride& node : spec.node_overrides()) overrides[node.host()] = &node;
  return overrides;
}

const v1::NodeOverride* Find(const Overrides& overrides, const std::string& host) {
  const auto it = overrides.find(host);
  return it == overrides.end() ? nullptr : it->second;
}

void SetEnvironment(const v1::JobSpec& spec, const v1::NodeOverride* override,
                    v1::LaunchSpec& launch) {
  *launch.mutable_env() = spec.env();
  if (override) launch.mutable_env()->MergeFrom(override->env());
}

}  // namespace

NodeSlots SlotsOf(const NodeView& node, std::string_view devices) {
  NodeSlots slots;
  slots.node = node.id;
  if (node.facts.slots_are_cards() && devices == "none") {
    slots.slots.resize(std::max(kSlotsOfUnknownNode, node.facts.cpu_count()));
    std::iota(slots.slots.begin(), slots.slots.end(), 0);
    slots.bare_count = kSlotsOfUnknownNode;
    return slots;
  }
  slots.slots.assign(node.facts.slots().begin(), node.facts.slots().end());
  slots.are_modules = node.facts.slots_are_cards();
  for (const v1::Problem& problem : node.facts.devices().problems()) {
    slots.problems.push_back(problem.message());
  }
  return slots;
}

absl::StatusOr<v1::Plan> PlanJob(const v1::JobSpec& spec, std::span<const NodeSlots> nodes,
                                 PlanDetail detail) {
  Faults faults;
  CheckJob(spec, nodes.size(), faults);
  if (!faults.job.empty()) return faults.ToStatus();

  std::vector<std::vector<uint32_t>> slots;
  uint64_t world_size = 0;
  // True when a host's slots are a guess, with which nothing must be compared.
  bool assumed = false;
  for (int i = 0; i < spec.hosts_size(); ++i) {
    const v1::HostEntry& host = spec.hosts(i);
    const bool is_known = !nodes.empty() && !nodes[i].node.empty();
    if (is_known && spec.devices() == "gaudi" && !nodes[i].are_modules) {
      faults.nodes.push_back(fmt::format("{}: the job wants Gaudi cards, node {} has none{}",
                                         Located(host), nodes[i].node.value(),
                                         BecauseOf(nodes[i])));
    }
    assumed = assumed || (!is_known && host.slot_count() == 0 && host.selected_slots().empty());
    slots.push_back(ChooseSlots(host, is_known ? nodes[i] : NodeSlots{}, faults));
    world_size += slots.back().size();
  }
  if (world_size > kMaxRanks) {
    faults.job.push_back(fmt::format("{} ranks are more than {}", world_size, kMaxRanks));
    return faults.ToStatus();
  }
  if (faults.nodes.empty() && !assumed && spec.expected_world_size() != 0 &&
      spec.expected_world_size() != world_size) {
    faults.job.push_back(fmt::format("world size {} does not fit: the hosts give {} ranks",
                                     spec.expected_world_size(), world_size));
  }

  v1::Plan plan;
  plan.set_world_size(static_cast<uint32_t>(world_size));
  plan.set_master_addr(std::string(FirstOf(spec.master_addr(), spec.hosts(0).address())));
  plan.set_master_port(spec.master_port());
  const Overrides overrides = OverridesByHost(spec);
  const v1::LaunchSpec common = CommonLaunch(spec, nullptr);
  ExecCheck exec_check(spec, common);
  RankPlace place;
  place.world_size = plan.world_size();
  place.node_count = static_cast<uint32_t>(spec.hosts_size());
  for (int i = 0; i < spec.hosts_size(); ++i) {
    const v1::HostEntry& host = spec.hosts(i);
    const v1::NodeOverride* override = Find(overrides, host.host());
    v1::PlannedNode& node = *plan.add_nodes();
    node.set_host(host.host());
    v1::LaunchSpec& launch = *node.mutable_launch();
    launch = override ? CommonLaunch(spec, override) : common;
    exec_check.Check(launch, host, place.rank, override, faults);
    const bool modules = !nodes.empty() && nodes[i].are_modules;
    if (!nodes.empty()) node.set_node_id(nodes[i].node.value());
    if (modules) {
      WarnOfGroup(host, slots[i], plan);
    } else if (!nodes.empty() && !nodes[i].problems.empty()) {
      // Ranks that quietly run without cards may run for days before anybody notices.
      plan.add_warnings(fmt::format("{}: no card is used on node {}, its slots are plain{}",
                                    Located(host), nodes[i].node.value(), BecauseOf(nodes[i])));
    }
    launch.set_slots_are_cards(modules);
    launch.set_node_count(place.node_count);
    if (i == 0) {
      launch.mutable_rendezvous()->set_port(spec.master_port());
      launch.mutable_rendezvous()->set_address(plan.master_addr());
    }
    if (detail == PlanDetail::kFull) SetEnvironment(spec, override, launch);
    place.node_index = static_cast<uint32_t>(i);
    place.local_world_size = static_cast<uint32_t>(slots[i].size());
    place.slot_was_chosen = !host.selected_slots().empty();
    place.modules = modules ? std::span<const uint32_t>(slots[i]) : std::span<const uint32_t>();
    launch.mutable_ranks()->Reserve(static_cast<int>(slots[i].size()));
    for (place.local_rank = 0; place.local_rank < slots[i].size(); ++place.local_rank) {
      place.slot = slots[i][place.local_rank];
      SetRank(place, *launch.add_ranks());
      ++place.rank;
    }
  }
  if (!faults.job.empty() || !faults.nodes.empty()) return faults.ToStatus();
  return plan;
}

void AddEnvironment(const v1::JobSpec& spec, std::string_view host, v1::LaunchSpec& launch) {
  SetEnvironment(spec, Find(OverridesByHost(spec), std::string(host)), launch);
}

}  // namespace muster
