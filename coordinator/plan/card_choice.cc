#include "coordinator/plan/card_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "coordinator/plan/slot_choice.h"

namespace muster {
namespace {

// Modules of the groups in which cards reach each other directly: 0-1, 2-3, ... and 0-3, 4-7.
constexpr uint32_t kGroupedModules = 8;

size_t CountDoubtful(const std::vector<uint32_t>& cards, const CardUse& use) {
  return static_cast<size_t>(std::count_if(
      cards.begin(), cards.end(), [&](uint32_t card) { return use.doubtful.contains(card); }));
}

// How many of `free` are in the group of `size` that `card` is in.
size_t FreeAround(uint32_t card, uint32_t size, const std::vector<uint32_t>& free) {
  if (card >= kGroupedModules) return 0;
  return static_cast<size_t>(std::count_if(
      free.begin(), free.end(), [&](uint32_t other) { return other / size == card / size; }));
}

// The free groups of `size`.
std::vector<std::vector<uint32_t>> Groups(uint32_t size, const std::vector<uint32_t>& free) {
  std::vector<std::vector<uint32_t>> groups;
  for (uint32_t first = 0; first < kGroupedModules; first += size) {
    std::vector<uint32_t> group;
    for (uint32_t card = first; card < first + size; ++card) {
      if (std::binary_search(free.begin(), free.end(), card)) group.push_back(card);
    }
    if (group.size() == size) groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace

std::vector<uint32_t> ChooseCards(size_t count, const std::vector<uint32_t>& free,
                                  const CardUse& use) {
  std::vector<uint32_t> chosen = free;
  const auto weight = [&](uint32_t card) {
    const bool alone = count < 4 && count != 2;
    // Of the halves of the board that hold all of them the fullest, else the emptiest.
    const size_t around = FreeAround(card, 4, free);
    const size_t half = count >= 4 ? 0 : around >= count ? around : kGroupedModules - around;
    return std::tuple(use.doubtful.contains(card), half, alone ? FreeAround(card, 2, free) : 0,
                      card);
  };
  std::sort(chosen.begin(), chosen.end(),
            [&](uint32_t a, uint32_t b) { return weight(a) < weight(b); });
  chosen.resize(std::min(count, chosen.size()));
  std::sort(chosen.begin(), chosen.end());
  if (count != 2 && count != 4) return chosen;
  const std::vector<std::vector<uint32_t>> groups = Groups(static_cast<uint32_t>(count), free);
  const auto best =
      std::min_element(groups.begin(), groups.end(), [&](const auto& a, const auto& b) {
        return std::tuple(CountDoubtful(a, use), FreeAround(a.front(), 4, free), a.front()) <
               std::tuple(CountDoubtful(b, use), FreeAround(b.front(), 4, free), b.front());
      });
  // Better apart than waiting for somebody.
  if (best == groups.end() || CountDoubtful(*best, use) > CountDoubtful(chosen, use)) return chosen;
  return *best;
}

std::string DescribeUse(const CardUse& use) {
  // Cards of one holder together.
  std::vector<std::pair<std::string, std::vector<uint32_t>>> holders;
  for (const auto* cards : {&use.taken, &use.doubtful}) {
    for (const auto& [card, holder] : *cards) {
      auto it = std::find_if(holders.begin(), holders.end(),
                             [&](const auto& known) { return known.first == holder; });
      if (it == holders.end()) it = holders.insert(it, {holder, {}});
      it->second.push_back(card);
    }
  }
  std::string text;
  for (const auto& [holder, cards] : holders) {
    fmt::format_to(std::back_inserter(text), "{}card{} {}: {}", text.empty() ? "" : "; ",
                   cards.size() == 1 ? "" : "s", RangesText(cards), holder);
  }
  return text;
}

}  // namespace muster
