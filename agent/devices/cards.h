// Which cards of an inventory are offered, and why others are not. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/v1/types.pb.h"

namespace muster {

// What the status of a card means for a start.
enum class CardState {
  kReady,
  // Will be ready by itself, after a reset for example.
  kPassing,
  // Somebody has to do something.
  kBroken,
};

// Of `Device.status`. A tool that has no word for it is taken to show cards that work.
CardState StateOfCard(std::string_view status);

// Keeps the cards that HABANA_VISIBLE_MODULES (module ids) and HABANA_VISIBLE_DEVICES (indexes)
// allow; `all` and an empty value allow all. With both, a card must be in both. What they name and
// the node does not have, and what is no number, is told as a problem.
void KeepVisibleCards(std::string_view modules, std::string_view indexes,
                      v1::DeviceInventory& inventory);

// Brings cards into the order of their module ids and tells which of them cannot be used: module
// ids that several cards have, and states that do not pass.
void JudgeCards(v1::DeviceInventory& inventory);

// Module ids of the cards that can be used, ascending.
std::vector<uint32_t> UsableModules(const v1::DeviceInventory& inventory);

}  // namespace muster
