#include "coordinator/spec/selection.h"

#include <absl/container/flat_hash_map.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "common/config/text.h"
#include "coordinator/spec/host_list.h"
#include "coordinator/spec/host_name.h"
#include "coordinator/spec/hostfile.h"

namespace muster {
namespace {

using Hosts = std::vector<v1::HostEntry>;
// Chosen slots per host index; no slots means the whole host.
using Choice = absl::flat_hash_map<size_t, std::vector<uint32_t>>;

// Slots of a host as far as they are known: those of `modules=`, else 0 to slot_count - 1. Empty
// when the node has to say.
std::vector<uint32_t> KnownSlots(const v1::HostEntry& host) {
  if (host.selected_slots_size() > 0) {
    return {host.selected_slots().begin(), host.selected_slots().end()};
  }
  std::vector<uint32_t> slots(host.slot_count());
  for (uint32_t i = 0; i < host.slot_count(); ++i) slots[i] = i;
  return slots;
}

std::string Join(const std::vector<uint32_t>& slots) {
  return fmt::format("{}", fmt::join(slots, ","));
}

// Reads one include or exclude expression against the hosts.
class ExpressionParser {
 public:
  ExpressionParser(const Hosts& hosts, const Origin& at, Diagnostics& diagnostics)
      : hosts_(hosts), at_(at), diagnostics_(diagnostics) {
    for (size_t i = 0; i < hosts.size(); ++i) index_.try_emplace(HostKey(hosts[i].host()), i);
  }

  Choice Parse(std::string_view text) {
    for (const std::string_view node : Split(text, '@')) ParseNode(Trim(node));
    return std::move(choice_);
  }

 private:
  void Error(std::string message) { diagnostics_.Error(at_, std::move(message)); }

  void ParseNode(std::string_view node) {
    if (node.empty())
      return Error("a host name is missing (write HOST or HOST:SLOTS, joined by '@')");
    // IPv6 addresses have colons of their own: the whole word wins when the hostfile has it.
    size_t colon = node.rfind(':');
    if (node.ends_with(']') || index_.contains(HostKey(node))) colon = std::string_view::npos;
    std::string_view name = node.substr(0, colon);
    std::vector<uint32_t> slots;
    if (colon != std::string_view::npos) {
      const std::string problem = ParseSlotList(node.substr(colon + 1), kMaxSlotsPerHost, slots);
      if (!problem.empty()) return Error(fmt::format("{}: {}", Quoted(node), problem));
    }
    const HostPattern pattern = ParseHostPattern(name, budget_);
    if (!pattern.error.empty()) return Error(pattern.error);
    for (const std::string& host : pattern.hosts) Choose(host, slots);
  }

  void Choose(const std::string& host, const std::vector<uint32_t>& slots) {
    const auto found = index_.find(HostKey(host));
    if (found == index_.end()) return Error(NotFound(host));
    const v1::HostEntry& entry = hosts_[found->second];
    const std::vector<uint32_t> known = KnownSlots(entry);
    for (const uint32_t slot : slots) {
      if (!known.empty() && !std::binary_search(known.begin(), known.end(), slot)) {
        Error(fmt::format(
            "host {} has no slot {}: {} gives it {} ({})", Quoted(host), slot,
            entry.source().empty() ? "the list of hosts" : entry.source(), known.size(),
            entry.selected_slots_size() > 0 ? Join(known)
                                            : fmt::format("0 to {}", known.size() - 1)));
      }
    }
    if (!choice_.try_emplace(found->second, slots).second) {
      Error(fmt::format("host {} is named twice (write all of its slots in one place)",
                        Quoted(host)));
    }
  }

  std::string NotFound(const std::string& host) const {
    std::string message = fmt::format("host {} is not among the hosts", Quoted(host));
    // Looking for a near name is for people; a thousand hosts are not read as one line.
    if (hosts_.size() <= 1000 && diagnostics_.errors.size() < Diagnostics::kMaxKept) {
      std::vector<std::string_view> names;
      for (const v1::HostEntry& entry : hosts_) names.push_back(entry.host());
      const std::string_view nearest = Nearest(host, names);
      if (!nearest.empty()) message += fmt::format(" (did you mean {}?)", Quoted(nearest));
    }
    return message;
  }

  const Hosts& hosts_;
  const Origin& at_;
  Diagnostics& diagnostics_;
  absl::flat_hash_map<std::string, size_t> index_;
  Choice choice_;
  size_t budget_ = kMaxHosts;
};

void SetSlots(v1::HostEntry& host, const std::vector<uint32_t>& slots) {
  host.clear_selected_slots();
  for (const uint32_t slot : slots) host.add_selected_slots(slot);
}

Hosts Include(Hosts hosts, const Choice& choice) {
  Hosts chosen;
  for (size_t i = 0; i < hosts.size(); ++i) {
    const auto found = choice.find(i);
    if (found == choice.end()) continue;
    if (!found->second.empty()) SetSlots(hosts[i], found->second);
    chosen.push_back(std::move(hosts[i]));
  }
  return chosen;
}

Hosts Exclude(Hosts hosts, const Choice& choice, const Origin& at, Diagnostics& diagnostics) {
  Hosts left;
  for (size_t i = 0; i < hosts.size(); ++i) {
    const auto found = choice.find(i);
    if (found != choice.end()) {
      if (found->second.empty()) continue;
      std::vector<uint32_t> slots = KnownSlots(hosts[i]);
      if (slots.empty()) {
        diagnostics.Error(
            at, fmt::format("slots of host {} cannot be excluded, because {} does not say how "
                            "many it has (write slots=N there)",
                            Quoted(hosts[i].host()), hosts[i].source()));
        continue;
      }
      std::erase_if(slots, [&](uint32_t slot) {
        return std::binary_search(found->second.begin(), found->second.end(), slot);
      });
      if (slots.empty()) continue;
      SetSlots(hosts[i], slots);
    }
    left.push_back(std::move(hosts[i]));
  }
  return left;
}

// Cuts the list to a number of hosts and each host to a number of slots.
void Limit(Hosts& hosts, const Selection& selection, Diagnostics& diagnostics) {
  if (const int nodes = selection.num_nodes.value_or(-1); nodes != -1) {
    if (nodes < 1) {
      diagnostics.Error(selection.num_nodes_at, fmt::format("must be at least 1, got {}", nodes));
    } else if (static_cast<size_t>(nodes) > hosts.size()) {
      diagnostics.Error(
          selection.num_nodes_at,
          fmt::format("{} nodes are asked for, but there are {} hosts", nodes, hosts.size()));
    } else {
      hosts.resize(static_cast<size_t>(nodes));
    }
  }
  const int slots = selection.slots_per_node.value_or(-1);
  if (slots == -1) return;
  if (slots < 1 || static_cast<uint32_t>(slots) > kMaxSlotsPerHost) {
    diagnostics.Error(selection.slots_per_node_at,
                      fmt::format("must be from 1 to {}, got {}", kMaxSlotsPerHost, slots));
    return;
  }
  for (v1::HostEntry& host : hosts) {
    const uint32_t wanted = static_cast<uint32_t>(slots);
    if (host.slot_count() != 0 && wanted > host.slot_count()) {
      diagnostics.Error(selection.slots_per_node_at,
                        fmt::format("{} slots are asked for, but host {} has {} ({})", slots,
                                    Quoted(host.host()), host.slot_count(), host.source()));
      continue;
    }
    host.set_slot_count(wanted);
    if (static_cast<uint32_t>(host.selected_slots_size()) > wanted) {
      host.mutable_selected_slots()->Truncate(slots);
    }
  }
}

}  // namespace

std::vector<v1::HostEntry> SelectHosts(std::vector<v1::HostEntry> hosts, const Selection& selection,
                                       Diagnostics& diagnostics) {
  const bool include = !Trim(selection.include).empty();
  const bool exclude = !Trim(selection.exclude).empty();
  if (include && exclude) {
    diagnostics.Error(selection.exclude_at, "include and exclude are mutually exclusive");
    return {};
  }
  if (include || exclude) {
    const Origin& at = include ? selection.include_at : selection.exclude_at;
    const std::string_view which = include ? "include" : "exclude";
    if (selection.num_nodes.value_or(-1) != -1) {
      diagnostics.Error(selection.num_nodes_at, fmt::format("cannot be used with {}", which));
    }
    if (selection.slots_per_node.value_or(-1) != -1) {
      diagnostics.Error(selection.slots_per_node_at, fmt::format("cannot be used with {}", which));
    }
    const bool ok_before = diagnostics.ok();
    const Choice choice = ExpressionParser(hosts, at, diagnostics)
                              .Parse(include ? selection.include : selection.exclude);
    hosts = include ? Include(std::move(hosts), choice)
                    : Exclude(std::move(hosts), choice, at, diagnostics);
    if (hosts.empty() && (!ok_before || diagnostics.ok())) {
      diagnostics.Error(at, "no host is left");
    }
    return hosts;
  }
  Limit(hosts, selection, diagnostics);
  return hosts;
}

bool IsGaudiGroup(std::span<const uint32_t> modules) {
  if (modules.size() != 2 && modules.size() != 4) return true;
  if (modules.front() % modules.size() != 0) return false;
  for (size_t i = 0; i < modules.size(); ++i) {
    if (modules[i] != modules.front() + i) return false;
  }
  return modules.back() < 8;
}

}  // namespace muster
