#include "coordinator/plan/local_hosts.h"

#include <absl/container/flat_hash_map.h>
#include <arpa/inet.h>
#include <strings.h>

#include <algorithm>
#include <array>
#include <optional>

#include "coordinator/plan/plan_job.h"

namespace muster {
namespace {

// The bytes of a numeric address; nothing for a name.
std::optional<std::string> AddressBytes(std::string_view text) {
  if (text.size() > 2 && text.front() == '[' && text.back() == ']') {
    text = text.substr(1, text.size() - 2);
  }
  const std::string name(text);
  std::array<char, sizeof(in6_addr)> bytes{};
  if (inet_pton(AF_INET, name.c_str(), bytes.data()) == 1) {
    return std::string(bytes.data(), sizeof(in_addr));
  }
  if (inet_pton(AF_INET6, name.c_str(), bytes.data()) == 1) {
    return std::string(bytes.data(), sizeof(in6_addr));
  }
  return std::nullopt;
}

bool IsLoopback(const std::string& bytes) {
  if (bytes.size() == sizeof(in_addr)) return bytes[0] == 127;
  return bytes == std::string(15, '\0') + '\1';
}

enum class HostKind { kNamed, kThisMachine, kElsewhere };

HostKind KindOf(const std::string& host, std::span<const std::string> machine_addresses) {
  if (strcasecmp(host.c_str(), "localhost") == 0) return HostKind::kThisMachine;
  const std::optional<std::string> bytes = AddressBytes(host);
  if (!bytes) return HostKind::kNamed;
  const bool here = IsLoopback(*bytes) ||
                    std::any_of(machine_addresses.begin(), machine_addresses.end(),
                                [&](const std::string& own) { return AddressBytes(own) == bytes; });
  return here ? HostKind::kThisMachine : HostKind::kElsewhere;
}

uint32_t SlotsNeeded(const v1::HostEntry& host) {
  uint32_t slots = host.slot_count();
  for (uint32_t slot : host.selected_slots()) slots = std::max(slots, slot + 1);
  return slots == 0 ? kSlotsOfUnknownNode : slots;
}

}  // namespace

std::vector<LocalAgent> PlanLocalAgents(
    const google::protobuf::RepeatedPtrField<v1::HostEntry>& hosts,
    std::span<const std::string> machine_addresses) {
  std::vector<LocalAgent> named;
  std::vector<LocalAgent> this_machine;
  absl::flat_hash_map<std::string, size_t> index_of;
  for (const v1::HostEntry& host : hosts) {
    switch (KindOf(host.host(), machine_addresses)) {
      case HostKind::kNamed: {
        const auto [it, is_new] = index_of.try_emplace(host.host(), named.size());
        if (is_new) named.push_back({host.host(), 0});
        LocalAgent& agent = named[it->second];
        agent.slots = std::max(agent.slots, SlotsNeeded(host));
        break;
      }
      case HostKind::kThisMachine:
        if (this_machine.empty()) this_machine.push_back({host.host(), SlotsNeeded(host)});
        break;
      case HostKind::kElsewhere:
        break;
    }
  }
  return named.empty() ? this_machine : named;
}

}  // namespace muster
