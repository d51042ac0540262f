#include "coordinator/plan/slot_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace muster {

std::string RangesText(const std::vector<uint32_t>& slots) {
  std::string out;
  for (size_t i = 0; i < slots.size();) {
    size_t end = i + 1;
    while (end < slots.size() && slots[end] == slots[end - 1] + 1) ++end;
    fmt::format_to(std::back_inserter(out), "{}{}", out.empty() ? "" : ",", slots[i]);
    if (end - i > 1) fmt::format_to(std::back_inserter(out), "-{}", slots[end - 1]);
    i = end;
  }
  return out;
}

std::vector<uint32_t> ChooseSlots(const v1::HostEntry& host, const NodeSlots& node,
                                  Faults& faults) {
  std::vector<uint32_t> chosen(host.selected_slots().begin(), host.selected_slots().end());
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  if (node.node.empty()) {
    if (!chosen.empty()) return chosen;
    const uint32_t count = host.slot_count() == 0 ? kSlotsOfUnknownNode : host.slot_count();
    if (count > kMaxRanks) {
      faults.job.push_back(fmt::format("{} cannot have {} slots", Located(host), count));
      return {};
    }
    chosen.resize(count);
    std::iota(chosen.begin(), chosen.end(), 0);
    return chosen;
  }
  std::vector<uint32_t> offered = node.slots;
  std::sort(offered.begin(), offered.end());
  offered.erase(std::unique(offered.begin(), offered.end()), offered.end());
  const std::string has = offered.empty()
                              ? "has no slots"
                              : fmt::format("has {} ({})", offered.size(), RangesText(offered));
  if (chosen.empty()) {
    const size_t wanted = host.slot_count() == 0 ? offered.size() : host.slot_count();
    if (wanted > offered.size() || wanted == 0) {
      faults.nodes.push_back(fmt::format("{} asks for {} slots, node {} {}", Located(host),
                                         wanted == 0 ? "all" : std::to_string(wanted),
                                         node.node.value(), has));
      return {};
    }
    offered.resize(wanted);
    return offered;
  }
  std::vector<uint32_t> lacking;
  std::set_difference(chosen.begin(), chosen.end(), offered.begin(), offered.end(),
                      std::back_inserter(lacking));
  if (!lacking.empty()) {
    faults.nodes.push_back(fmt::format("{}: slot {} is not on node {}, which {}", Located(host),
                                       RangesText(lacking), node.node.value(), has));
  }
  return chosen;
}

}  // namespace muster
