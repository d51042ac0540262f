// The part of the core that has nodes checked for clients (check_desk.h).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "coordinator/core/core_impl.h"
#include "coordinator/core/proto_time.h"
#include "coordinator/core/spec_check.h"
#include "coordinator/plan/plan_job.h"
#include "coordinator/plan/slot_choice.h"

namespace muster {
namespace {

constexpr Duration kDefaultLimit = std::chrono::seconds(10);
constexpr Duration kLongestLimit = std::chrono::seconds(60);
constexpr Duration kDefaultSending = std::chrono::seconds(1);
constexpr Duration kLongestSending = std::chrono::seconds(10);
constexpr uint32_t kMostRounds = 1000;

bool HasProgram(const v1::JobSpec& spec) { return !spec.program().target().empty(); }

absl::Status CheckRequest(const v1::CheckNodesRequest& request, const Caller& caller) {
  std::vector<std::string> problems;
  const auto check = [&](const char* name, bool is_set, const google::protobuf::Duration& value,
                         Duration most) {
    const Duration duration = ToDuration(value);
    if (is_set && (duration <= Duration::zero() || duration > most)) {
      problems.push_back(
          fmt::format("{}: must be more than 0 and at most {} s", name,
                      std::chrono::duration_cast<std::chrono::seconds>(most).count()));
    }
  };
  check("limit", request.has_limit(), request.limit(), kLongestLimit);
  check("network_test.duration", request.network_test().has_duration(),
        request.network_test().duration(), kLongestSending);
  if (request.network_test().rounds() > kMostRounds) {
    problems.push_back(fmt::format("network_test.rounds: at most {}, got {}", kMostRounds,
                                   request.network_test().rounds()));
  }
  const absl::Status spec = HasProgram(request.spec()) ? CheckSpec(request.spec(), caller)
                                                       : CheckChoices(request.spec(), caller);
  if (!spec.ok()) problems.emplace_back(spec.message());
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{}", fmt::join(problems, "\n")));
}

// What a node would be asked for that is checked for no job in particular: all that it has.
v1::LaunchSpec LaunchOfAll(const v1::JobSpec& spec, const v1::NodeFacts& facts) {
  v1::LaunchSpec launch;
  launch.set_working_directory("/");
  launch.set_user(spec.user());
  launch.set_slots_are_cards(facts.slots_are_cards());
  *launch.mutable_env() = spec.env();
  for (const uint32_t slot : facts.slots()) {
    v1::RankSpec& rank = *launch.add_ranks();
    rank.set_local_rank(static_cast<uint32_t>(launch.ranks_size() - 1));
    rank.set_rank(rank.local_rank());
    rank.set_slot(slot);
  }
  // The environment is asked of a rank.
  if (launch.ranks().empty()) launch.add_ranks();
  return launch;
}

// That a host is to have slots or cards that its node lacks; those in use are no lack.
std::optional<v1::CheckResult> ShortageOf(const v1::HostEntry& host, NodeSlots node) {
  node.use = {};
  Faults faults;
  (void)ChooseSlots(host, node, faults);
  if (faults.nodes.empty()) return std::nullopt;
  v1::CheckResult result;
  result.set_check("slots");
  result.set_verdict(v1::FAIL);
  result.set_message(fmt::format("{}", fmt::join(faults.nodes, "; ")));
  return result;
}

}  // namespace

absl::StatusOr<CheckHandle> CoordinatorCore::Impl::CheckNodes(v1::CheckNodesRequest request,
                                                              const Caller& caller,
                                                              CheckListener* listener) {
  v1::JobSpec& spec = *request.mutable_spec();
  *spec.mutable_hosts() = request.hosts();
  if (spec.hosts().empty()) {
    for (const auto& [id, node] : nodes_.nodes()) spec.add_hosts()->set_host(id.value());
  }
  if (absl::Status fit = CheckRequest(request, caller); !fit.ok()) return fit;
  if (spec.hosts().empty()) {
    return absl::FailedPreconditionError(
        "no node has joined yet: start agents, or name the hosts to check");
  }
  if (spec.user().empty()) spec.set_user(caller.user);
  const NodeInventory& inventory = nodes_.Alive();
  const HostMatches matches = MatchHosts(spec.hosts(), inventory.nodes);
  if (!matches.errors.empty()) {
    return absl::FailedPreconditionError(fmt::format("{}", fmt::join(matches.errors, "\n")));
  }
  CheckDesk::Request desk;
  absl::StatusOr<v1::Plan> plan = v1::Plan();
  if (HasProgram(spec)) {
    std::vector<NodeSlots> slots(static_cast<size_t>(spec.hosts_size()));
    for (size_t i = 0; i < slots.size(); ++i) {
      if (matches.node[i]) slots[i] = SlotsOf(inventory.nodes[*matches.node[i]]);
    }
    plan = muster::PlanJob(spec, slots, PlanDetail::kLayout);
    if (!plan.ok()) return plan.status();
  }
  for (int i = 0; i < spec.hosts_size(); ++i) {
    NodeToCheck& target = desk.targets.emplace_back();
    target.host = spec.hosts(i).host();
    if (!matches.node[static_cast<size_t>(i)]) {
      target.error =
          "no node serves it: its agent is not running, or does not reach this "
          "coordinator";
      continue;
    }
    const NodeView& view = inventory.nodes[*matches.node[static_cast<size_t>(i)]];
    target.node = view.id;
    target.clock_offset = nodes_.Find(view.id)->clock_offset();
    if (HasProgram(spec)) {
      target.launch = plan->nodes(i).launch();
      AddEnvironment(spec, target.host, target.launch);
    } else {
      target.launch = LaunchOfAll(spec, view.facts);
      target.fault = ShortageOf(spec.hosts(i), SlotsOf(view));
    }
    target.launch.set_submitter(caller.user);
    target.launch.set_node_count(static_cast<uint32_t>(spec.hosts_size()));
    *target.launch.mutable_skip_checks() = spec.skip_checks();
    *target.launch.mutable_require_checks() = spec.require_checks();
    desk.options.cards = desk.options.cards || target.launch.slots_are_cards();
  }
  desk.options.skip_checks = spec.skip_checks();
  desk.options.require_checks = spec.require_checks();
  desk.limit = request.has_limit() ? ToDuration(request.limit()) : kDefaultLimit;
  if (request.has_network_test()) {
    desk.network_rounds = std::max(1u, request.network_test().rounds());
    desk.network_duration = request.network_test().has_duration()
                                ? ToDuration(request.network_test().duration())
                                : kDefaultSending;
  }
  Note(NoteLevel::kInfo,
       fmt::format("nodes are checked hosts={} user=\"{}\"", spec.hosts_size(), caller.user));
  return checks_.Begin(std::move(desk), listener);
}

bool CoordinatorCore::Impl::SendCheck(const NodeId& node, v1::RunCheck check) {
  AgentSession* session = sessions_.LiveOf(node);
  if (session == nullptr || !session->open()) return false;
  session->Check(std::move(check));
  return true;
}

}  // namespace muster
