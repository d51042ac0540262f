// The part of the agent's core that deals with the rendezvous: what rank 0's node proposes, and
// whether the others reach it.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "agent/core/agent_core.h"
#include "agent/core/compose.h"
#include "agent/core/describe.h"
#include "agent/core/shim_events.h"

namespace muster {

using internal::JournalAttempt;

namespace {

constexpr char kSocketInterfaces[] = "HCCL_SOCKET_IFNAME";

// What the node is to try now; null: nothing.
const v1::RendezvousProbe* ProbeOf(const JournalAttempt& attempt) {
  const v1::Assignment& assignment = attempt.assignment();
  const bool wanted = assignment.desired() == v1::Assignment::PREPARED && assignment.has_probe();
  return wanted && !attempt.stopped() ? &assignment.probe() : nullptr;
}

}  // namespace

std::vector<std::string> AgentCore::ProposedAddresses(const JournalAttempt& attempt) {
  v1::LaunchSpec launch = attempt.assignment().launch();
  std::vector<std::string> addresses;
  if (!launch.has_rendezvous() || !launch.rendezvous().address().empty()) return addresses;
  // As the ranks will have it, whoever they run as: no user's own variable.
  ComposeContext context;
  context.attempt = {JobId(attempt.assignment().key().job_id()),
                     attempt.assignment().key().attempt()};
  context.node = options_.node_id;
  // Ranks in containers have none of the agent's.
  if (!launch.has_container()) context.environ = options_.environ;
  launch.clear_container();
  context.home = options_.home;
  const absl::StatusOr<internal::ShimBootstrap> bootstrap = ComposeBootstrap(launch, context);
  const std::string interfaces =
      bootstrap.ok() ? VariableOfFirstRank(launch, *bootstrap, kSocketInterfaces) : "";
  if (!interfaces.empty()) addresses = network_.AddressesOf(interfaces);
  for (const std::string& address : options_.facts.addresses()) {
    if (std::find(addresses.begin(), addresses.end(), address) == addresses.end()) {
      addresses.push_back(address);
    }
  }
  return addresses;
}

void AgentCore::StartProbes() {
  if (!synced_) return;
  for (const auto& [id, attempt] : state_.attempts) {
    const v1::RendezvousProbe* probe = ProbeOf(attempt);
    if (probe == nullptr) continue;
    const uint64_t generation = attempt.assignment().generation();
    // Once in every life of the agent: one that ended may have taken the answer with it.
    if (std::exchange(live_[id].probe_generation, generation) == generation) continue;
    network_.Probe({probe->addresses().begin(), probe->addresses().end()}, probe->port(),
                   [this, id, generation,
                    alive = std::weak_ptr<int>(alive_)](std::vector<v1::ProbedAddress> answers) {
                     if (!alive.expired()) OnProbed(id, generation, std::move(answers));
                   });
  }
}

void AgentCore::OnProbed(const AttemptId& id, uint64_t generation,
                         std::vector<v1::ProbedAddress> answers) {
  const auto found = state_.attempts.find(id);
  if (found == state_.attempts.end() || ProbeOf(found->second) == nullptr ||
      found->second.assignment().generation() != generation) {
    return;  // Nobody waits for it any more.
  }
  for (const v1::ProbedAddress& answer : answers) {
    if (answer.error().empty()) continue;
    Notice(
        AgentObserver::Severity::kWarning,
        fmt::format("rendezvous not reached {} address={} port={} error=\"{}\"", Describe(id),
                    answer.address(), found->second.assignment().probe().port(), answer.error()));
  }
  JournalFactsOf(FactsOfProbe(found->second, std::move(answers), executor_.clock().WallNow()));
}

}  // namespace muster
