#include "coordinator/plan/slot_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

namespace muster {
namespace {

// Cards that no job has.
std::vector<uint32_t> ChooseFree(const v1::HostEntry& host, const NodeSlots& node, size_t wanted,
                                 const std::vector<uint32_t>& offered, Faults& faults) {
  std::vector<uint32_t> free;
  for (const uint32_t card : offered) {
    if (!node.use.taken.contains(card)) free.push_back(card);
  }
  if (free.size() >= wanted) return ChooseCards(wanted, free, node.use);
  faults.nodes.push_back(fmt::format("{} asks for {} cards, of the {} of node {} {} in use: {}",
                                     Located(host), wanted, offered.size(), node.node.value(),
                                     free.empty() ? "all are"
                                                  : fmt::format("only {} ({}) are free, the others",
                                                                free.size(), RangesText(free)),
                                     DescribeUse(node.use)));
  return {};
}

}  // namespace

std::string BecauseOf(const NodeSlots& node) {
  if (node.problems.empty()) return "";
  return fmt::format(" ({})", fmt::join(node.problems, "; "));
}

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
  const char* const what = node.are_modules ? "cards" : "slots";
  const std::string has =
      offered.empty()
          ? fmt::format("has no {}{}", what, BecauseOf(node))
          : fmt::format("has {}{} ({}){}", offered.size(),
                        node.are_modules ? (offered.size() == 1 ? " card" : " cards") : "",
                        RangesText(offered), BecauseOf(node));
  if (chosen.empty()) {
    const size_t bare = node.bare_count == 0 ? offered.size() : node.bare_count;
    const size_t wanted = host.slot_count() == 0 ? bare : host.slot_count();
    if (wanted > offered.size() || wanted == 0) {
      faults.nodes.push_back(fmt::format("{} asks for {} {}, node {} {}", Located(host),
                                         wanted == 0 ? "all" : std::to_string(wanted), what,
                                         node.node.value(), has));
      return {};
    }
    if (node.are_modules) return ChooseFree(host, node, wanted, offered, faults);
    offered.resize(wanted);
    return offered;
  }
  std::vector<uint32_t> lacking;
  std::set_difference(chosen.begin(), chosen.end(), offered.begin(), offered.end(),
                      std::back_inserter(lacking));
  if (!lacking.empty()) {
    faults.nodes.push_back(fmt::format("{}: {} {} is not on node {}, which {}", Located(host),
                                       node.are_modules ? "module" : "slot", RangesText(lacking),
                                       node.node.value(), has));
  }
  return chosen;
}

}  // namespace muster
