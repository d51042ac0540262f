#include "coordinator/core/rendezvous.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "coordinator/core/job_text.h"

namespace muster {
namespace {

constexpr size_t kNodesShown = 20;
// Nobody has more; what a node says is not to make others try for ever.
constexpr size_t kMostCandidates = 16;

bool IsLoopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

bool IsIpv6(const std::string& address) { return address.find(':') != std::string::npos; }

// What the user asks for; empty: nothing.
const std::string& AskedAddress(const JobRecord& job, const AttemptRecord& attempt) {
  static const std::string kNone;
  const uint32_t index = RendezvousNode(attempt);
  if (!job.spec->master_addr().empty()) return job.spec->master_addr();
  if (index < static_cast<uint32_t>(job.spec->hosts_size())) {
    return job.spec->hosts(static_cast<int>(index)).address();
  }
  return kNone;
}

// Takes away what `unwanted` says, unless nothing would be left.
template <typename Predicate>
void Prefer(std::vector<std::string>& addresses, Predicate unwanted) {
  std::vector<std::string> kept;
  std::copy_if(addresses.begin(), addresses.end(), std::back_inserter(kept),
               [&](const std::string& address) { return !unwanted(address); });
  if (!kept.empty()) addresses = std::move(kept);
}

std::vector<std::string> Candidates(const JobRecord& job, const AttemptRecord& attempt,
                                    const std::set<std::string>& ambiguous) {
  if (const std::string& asked = AskedAddress(job, attempt); !asked.empty()) return {asked};
  std::vector<std::string> addresses = attempt.nodes[RendezvousNode(attempt)].addresses;
  if (addresses.empty()) return {attempt.nodes[RendezvousNode(attempt)].host};
  Prefer(addresses, [&](const std::string& address) { return ambiguous.contains(address); });
  // Whoever tries it on another machine meets itself.
  Prefer(addresses, IsLoopback);
  // Gaudi's cache between hosts takes nothing but IPv4.
  std::stable_partition(addresses.begin(), addresses.end(),
                        [](const std::string& address) { return !IsIpv6(address); });
  if (addresses.size() > kMostCandidates) addresses.resize(kMostCandidates);
  return addresses;
}

std::string Endpoint(const std::string& address, uint32_t port) {
  return IsIpv6(address) ? fmt::format("[{}]:{}", address, port)
                         : fmt::format("{}:{}", address, port);
}

// Why a node did not reach an address; nothing when it did, or has not answered.
const std::string* ErrorOf(const NodeProgress& node, const std::string& address) {
  if (!node.probed.has_value()) return nullptr;
  static const std::string kNotTried = "not tried";
  for (const v1::ProbedAddress& one : *node.probed) {
    if (one.address() == address) return one.error().empty() ? nullptr : &one.error();
  }
  return &kNotTried;
}

}  // namespace

uint32_t RendezvousNode(const AttemptRecord& attempt) { return attempt.ranks.front().node_index; }

bool MayProbe(const AttemptRecord& attempt) {
  return attempt.nodes.size() > 1 && !attempt.probe.has_value() &&
         !attempt.rendezvous.has_value() &&
         attempt.nodes[RendezvousNode(attempt)].phase == v1::JobNode::PREPARED;
}

std::optional<internal::ProbeOrdered> PlanProbe(const JobRecord& job, const AttemptRecord& attempt,
                                                const ProbeView& view) {
  // An agent of an older version has a shim that does not listen.
  const bool listens =
      std::find(view.able.begin(), view.able.end(), RendezvousNode(attempt)) != view.able.end();
  if (!listens) return std::nullopt;
  internal::ProbeOrdered order;
  order.set_attempt(attempt.number);
  for (const uint32_t index : view.able) {
    if (index != RendezvousNode(attempt)) order.add_nodes(index);
  }
  if (order.nodes().empty()) return std::nullopt;
  for (std::string& address : Candidates(job, attempt, view.ambiguous)) {
    order.mutable_probe()->add_addresses(std::move(address));
  }
  order.mutable_probe()->set_port(attempt.nodes[RendezvousNode(attempt)].rendezvous_port);
  return order;
}

bool ProbeAnswered(const AttemptRecord& attempt) {
  return attempt.probe.has_value() && attempt.probes_answered == attempt.probes_asked;
}

std::optional<std::string> ReachedByAll(const AttemptRecord& attempt) {
  if (!ProbeAnswered(attempt)) return std::nullopt;
  for (const std::string& address : attempt.probe->addresses()) {
    const bool reached =
        std::all_of(attempt.nodes.begin(), attempt.nodes.end(), [&](const NodeProgress& node) {
          return !node.probe_asked || ErrorOf(node, address) == nullptr;
        });
    if (reached) return address;
  }
  return std::nullopt;
}

std::string DescribeUnreached(const AttemptRecord& attempt, Duration waited) {
  const uint32_t port = attempt.probe->port();
  std::vector<std::string> parts;
  for (const NodeProgress& node : attempt.nodes) {
    if (!node.probe_asked) continue;
    if (!node.probed.has_value()) {
      parts.push_back(fmt::format("{} did not say within {} what it reaches", node.host,
                                  DescribeDuration(waited)));
      continue;
    }
    std::vector<std::string> errors;
    for (const std::string& address : attempt.probe->addresses()) {
      const std::string* const error = ErrorOf(node, address);
      if (error == nullptr) continue;
      errors.push_back(fmt::format("{} {}", Endpoint(address, port), OneLine(*error)));
    }
    if (!errors.empty()) {
      parts.push_back(fmt::format("{}: {}", node.host, fmt::join(errors, ", ")));
    }
  }
  return fmt::format(
      "the ranks have nowhere to meet: no address of {} is reached by all other nodes; {}; look at "
      "firewalls and security groups for TCP port {}, or name another address or interface with "
      "master_addr or HCCL_SOCKET_IFNAME",
      attempt.nodes[RendezvousNode(attempt)].host, JoinNames(parts, kNodesShown), port);
}

std::string DescribeDetour(const AttemptRecord& attempt, const std::string& taken) {
  if (!attempt.probe.has_value() || attempt.probe->addresses().empty()) return "";
  const std::string& preferred = attempt.probe->addresses(0);
  if (preferred == taken) return "";
  std::vector<std::string> parts;
  for (const NodeProgress& node : attempt.nodes) {
    const std::string* const error = node.probe_asked ? ErrorOf(node, preferred) : nullptr;
    if (error != nullptr) parts.push_back(fmt::format("{}: {}", node.host, OneLine(*error)));
  }
  return fmt::format("MASTER_ADDR is {} because not every node reaches {}: {}", taken,
                     Endpoint(preferred, attempt.probe->port()), JoinNames(parts, kNodesShown));
}

v1::Rendezvous ChooseRendezvous(const JobRecord& job, const AttemptRecord& attempt) {
  const NodeProgress& first = attempt.nodes[RendezvousNode(attempt)];
  v1::Rendezvous rendezvous;
  rendezvous.set_port(first.rendezvous_port);
  const std::string& asked = AskedAddress(job, attempt);
  if (std::optional<std::string> reached = ReachedByAll(attempt); reached.has_value()) {
    rendezvous.set_address(*std::move(reached));
  } else if (!asked.empty()) {
    rendezvous.set_address(asked);
  } else if (!first.addresses.empty()) {
    rendezvous.set_address(first.addresses.front());
  } else {
    rendezvous.set_address(first.host);
  }
  return rendezvous;
}

}  // namespace muster
