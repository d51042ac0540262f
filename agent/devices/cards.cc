#include "agent/devices/cards.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_split.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "agent/devices/attribute.h"
#include "agent/devices/sysfs_cards.h"
#include "common/base/utf8.h"

namespace muster {
namespace {

void Tell(v1::DeviceInventory& inventory, const char* check, std::string message) {
  v1::Problem& problem = *inventory.add_problems();
  problem.set_check(check);
  problem.set_message(ValidUtf8(std::move(message)));
}

// The numbers of a list; nothing when it allows all.
std::optional<std::set<uint32_t>> ParseVisible(std::string_view name, std::string_view list,
                                               v1::DeviceInventory& inventory) {
  const std::string text(absl::StripAsciiWhitespace({list.data(), list.size()}));
  if (text.empty() || absl::AsciiStrToLower(text) == "all") return std::nullopt;
  std::set<uint32_t> numbers;
  for (std::string item : std::vector<std::string>(absl::StrSplit(text, ','))) {
    absl::StripAsciiWhitespace(&item);
    if (const std::optional<uint32_t> number = ParseNumber(item)) {
      numbers.insert(*number);
    } else {
      Tell(inventory, "card-visible",
           fmt::format("{}={}: a list of numbers, such as 0,1, expected, got \"{}\"", name, text,
                       item));
    }
  }
  return numbers;
}

// The module ids of several cards.
std::set<uint32_t> DoubleModules(const v1::DeviceInventory& inventory) {
  std::set<uint32_t> seen;
  std::set<uint32_t> twice;
  for (const v1::Device& device : inventory.devices()) {
    if (!seen.insert(device.module_id()).second) twice.insert(device.module_id());
  }
  return twice;
}

void KeepOnly(const std::optional<std::set<uint32_t>>& wanted, std::string_view name,
              const char* what, uint32_t (v1::Device::*number)() const,
              v1::DeviceInventory& inventory) {
  if (!wanted.has_value()) return;
  std::set<uint32_t> lacking = *wanted;
  for (const v1::Device& device : inventory.devices()) lacking.erase((device.*number)());
  if (!lacking.empty()) {
    Tell(inventory, "card-visible",
         fmt::format("{} names {} {}, which this node does not have", name, what,
                     fmt::join(lacking, ", ")));
  }
  auto& devices = *inventory.mutable_devices();
  devices.erase(std::remove_if(devices.begin(), devices.end(),
                               [&](const v1::Device& device) {
                                 return !wanted->contains((device.*number)());
                               }),
                devices.end());
}

}  // namespace

CardState StateOfCard(std::string_view status) {
  if (status.empty() || status == "Operational") return CardState::kReady;
  if (status.starts_with("In reset") || status == "In device creation") return CardState::kPassing;
  return CardState::kBroken;
}

void KeepVisibleCards(std::string_view modules, std::string_view indexes,
                      v1::DeviceInventory& inventory) {
  if (inventory.devices().empty()) return;
  const auto by_module = ParseVisible("HABANA_VISIBLE_MODULES", modules, inventory);
  const auto by_index = ParseVisible("HABANA_VISIBLE_DEVICES", indexes, inventory);
  // Each is compared with all cards before any is left out.
  v1::DeviceInventory other = inventory;
  other.clear_problems();
  KeepOnly(by_index, "HABANA_VISIBLE_DEVICES", "index", &v1::Device::index, other);
  KeepOnly(by_module, "HABANA_VISIBLE_MODULES", "module", &v1::Device::module_id, inventory);
  inventory.mutable_problems()->MergeFrom(other.problems());
  if (!by_index.has_value()) return;
  std::set<uint32_t> kept;
  for (const v1::Device& device : other.devices()) kept.insert(device.index());
  auto& devices = *inventory.mutable_devices();
  devices.erase(
      std::remove_if(devices.begin(), devices.end(),
                     [&](const v1::Device& device) { return !kept.contains(device.index()); }),
      devices.end());
}

void JudgeCards(v1::DeviceInventory& inventory) {
  auto& devices = *inventory.mutable_devices();
  std::stable_sort(devices.begin(), devices.end(), [](const v1::Device& a, const v1::Device& b) {
    return std::pair(a.module_id(), a.index()) < std::pair(b.module_id(), b.index());
  });
  for (const uint32_t module : DoubleModules(inventory)) {
    std::vector<std::string> names;
    for (const v1::Device& device : devices) {
      if (device.module_id() == module) names.push_back(NameOfCard(device));
    }
    Tell(inventory, "card-module",
         fmt::format("module id {} is that of {} cards, none of which can be used: {}", module,
                     names.size(), fmt::join(names, ", ")));
  }
  for (const v1::Device& device : devices) {
    // Told where it was read.
    if (StateOfCard(device.status()) != CardState::kBroken || device.status() == "unknown") {
      continue;
    }
    Tell(inventory, "card-status",
         fmt::format("{}, module {}, cannot be used, its status is \"{}\"{}", NameOfCard(device),
                     device.module_id(), device.status(),
                     device.status() == "Needs reset" ? " (an administrator has to reset it)"
                                                      : " (look at the kernel's log)"));
  }
}

std::vector<uint32_t> UsableModules(const v1::DeviceInventory& inventory) {
  const std::set<uint32_t> twice = DoubleModules(inventory);
  std::set<uint32_t> usable;
  for (const v1::Device& device : inventory.devices()) {
    const bool can_be_opened = !device.device_node().empty() || inventory.source() == "hl-smi";
    if (can_be_opened && !twice.contains(device.module_id()) &&
        StateOfCard(device.status()) != CardState::kBroken) {
      usable.insert(device.module_id());
    }
  }
  return {usable.begin(), usable.end()};
}

}  // namespace muster
