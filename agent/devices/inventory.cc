#include "agent/devices/inventory.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "agent/devices/cards.h"
#include "agent/devices/hl_smi.h"
#include "agent/devices/hlml_query.h"
#include "agent/devices/run_program.h"
#include "agent/devices/sysfs_cards.h"
#include "common/base/annotate.h"

namespace muster {
namespace {

std::string_view Variable(const DeviceOptions& options, std::string_view name) {
  for (const std::string& pair : options.environ) {
    if (pair.size() > name.size() && pair.starts_with(name) && pair[name.size()] == '=') {
      return std::string_view(pair).substr(name.size() + 1);
    }
  }
  return {};
}

std::string FindHlSmi(const DeviceOptions& options) {
  return options.sysroot.empty() ? FindInPath("hl-smi", Variable(options, "PATH"))
                                 : FindInPath("hl-smi", options.sysroot + "/usr/bin");
}

// The device node of a card that only a tool told of; empty when there is none.
std::string NodeOf(const std::string& root, uint32_t index) {
  for (const char* prefix : {"/dev/accel/accel", "/dev/hl"}) {
    std::string path = fmt::format("{}{}{}", root, prefix, index);
    struct stat info = {};
    if (::stat(path.c_str(), &info) == 0) return path;
  }
  return "";
}

std::optional<HlSmiText> AskTool(const DeviceOptions& options, v1::DeviceInventory& inventory) {
  const std::string program = FindHlSmi(options);
  if (program.empty()) return std::nullopt;
  absl::StatusOr<HlSmiText> answer =
      AskHlSmi({.program = program, .environ = options.environ, .limit = options.limits.hl_smi});
  const auto tell = [&](std::string message) {
    v1::Problem& problem = *inventory.add_problems();
    problem.set_check("hl-smi");
    problem.set_message(std::move(message));
  };
  if (!answer.ok()) {
    tell(fmt::format("cards are not known: {}", MessageOf(answer.status())));
    return std::nullopt;
  }
  if (answer->cards.empty()) {
    tell(fmt::format(
        "{} names no card{}", program,
        answer->other_lines == 0 ? "" : fmt::format(" but says: {}", answer->first_other)));
  }
  if (answer->cards.size() > options.limits.cards) answer->cards.resize(options.limits.cards);
  return *std::move(answer);
}

// Nothing where there is no library, or where it does not answer, which is told.
std::optional<v1::Node> AskLibrary(const DeviceOptions& options, v1::DeviceInventory& inventory) {
  if (options.own_program.empty() || options.sysfs_only) return std::nullopt;
  const std::string library = FindHlml(options.sysroot, Variable(options, "LD_LIBRARY_PATH"));
  if (library.empty()) return std::nullopt;
  absl::StatusOr<v1::Node> node = QueryHlml({.program = options.own_program,
                                             .library = library,
                                             .environ = options.environ,
                                             .limit = options.limits.hlml});
  if (node.ok()) return *std::move(node);
  v1::Problem& problem = *inventory.add_problems();
  problem.set_check("hlml");
  problem.set_message(fmt::format("not all is known of the cards: {}", MessageOf(node.status())));
  return std::nullopt;
}

// What the library knows and sysfs does not.
void Complete(const v1::Node& told, v1::DeviceInventory& inventory) {
  for (v1::Device& device : *inventory.mutable_devices()) {
    for (const v1::Device& other : told.facts().devices().devices()) {
      if (other.module_id() != device.module_id()) continue;
      if (device.serial().empty()) device.set_serial(other.serial());
      if (device.ports().empty()) *device.mutable_ports() = other.ports();
    }
  }
}

void AddReading(const v1::DeviceReading& told, v1::DeviceReading& reading) {
  // The status is the driver's word.
  const std::string status = reading.status();
  reading.MergeFrom(told);
  reading.set_status(status);
}

void CountPorts(const v1::Device& device, v1::DeviceReading& reading) {
  if (device.ports().empty()) return;
  const auto up = std::count_if(device.ports().begin(), device.ports().end(),
                                [](const v1::DevicePort& port) { return port.up(); });
  reading.set_ports_up(static_cast<uint32_t>(up));
  reading.set_ports_down(static_cast<uint32_t>(device.ports_size() - up));
}

}  // namespace

v1::DeviceInventory ReadInventory(const DeviceOptions& options) {
  v1::DeviceInventory inventory = ReadSysfsCards(options.sysroot, options.limits.cards);
  if (!inventory.devices().empty()) {
    if (const std::optional<v1::Node> told = AskLibrary(options, inventory)) {
      Complete(*told, inventory);
    }
  } else if (inventory.problems().empty() && !options.sysfs_only) {
    if (const std::optional<HlSmiText> answer = AskTool(options, inventory)) {
      for (const HlSmiCard& card : answer->cards) {
        v1::Device& device = *inventory.add_devices();
        device = card.device;
        device.set_device_node(NodeOf(options.sysroot, device.index()));
      }
      if (!answer->cards.empty()) inventory.set_source("hl-smi");
    }
  }
  KeepVisibleCards(Variable(options, "HABANA_VISIBLE_MODULES"),
                   Variable(options, "HABANA_VISIBLE_DEVICES"), inventory);
  JudgeCards(inventory);
  return inventory;
}

std::vector<CardHolder> FindHolders(const DeviceOptions& options,
                                    const v1::DeviceInventory& inventory) {
  std::vector<std::string> nodes;
  std::vector<uint32_t> modules;
  for (const v1::Device& device : inventory.devices()) {
    if (device.device_node().empty()) continue;
    nodes.push_back(device.device_node());
    modules.push_back(device.module_id());
  }
  std::vector<CardHolder> holders;
  HolderScan scan = FindFileHolders(nodes, options.proc, options.limits.holders);
  for (FileHolder& found : scan.holders) {
    CardHolder& holder = holders.emplace_back();
    holder.module_id = modules[found.file];
    holder.holder.set_pid(found.pid);
    holder.holder.set_user(LocalUserName(found.uid));
    holder.holder.set_command(std::move(found.command));
    holder.holder.set_job_id(std::move(found.job_id));
  }
  return holders;
}

std::vector<v1::DeviceReading> ReadCards(const DeviceOptions& options,
                                         const v1::DeviceInventory& known) {
  std::vector<v1::DeviceReading> readings;
  if (known.devices().empty()) return readings;
  v1::DeviceInventory now;
  std::optional<HlSmiText> tool;
  std::optional<v1::Node> library;
  if (known.source() == "hl-smi") {
    tool = AskTool(options, now);
  } else {
    now = ReadSysfsCards(options.sysroot, options.limits.cards);
    library = AskLibrary(options, now);
    if (library.has_value()) Complete(*library, now);
  }
  const std::vector<CardHolder> holders = FindHolders(options, known);
  for (const v1::Device& device : known.devices()) {
    v1::DeviceReading& reading = readings.emplace_back();
    reading.set_module_id(device.module_id());
    if (known.source() != "hl-smi") reading.set_status("gone");
    for (const v1::Device& current : now.devices()) {
      if (current.module_id() != device.module_id() || current.index() != device.index()) continue;
      reading.set_status(current.status());
      CountPorts(current, reading);
    }
    if (tool.has_value()) {
      for (const HlSmiCard& card : tool->cards) {
        if (card.device.module_id() == device.module_id()) AddReading(card.reading, reading);
      }
    }
    if (library.has_value()) {
      for (const v1::DeviceReading& told : library->readings()) {
        if (told.module_id() == device.module_id()) AddReading(told, reading);
      }
    }
    for (const CardHolder& holder : holders) {
      if (holder.module_id == device.module_id()) *reading.add_holders() = holder.holder;
    }
  }
  return readings;
}

}  // namespace muster
