#include "coordinator/cli/node_view.h"

#include <fmt/format.h>
#include <google/protobuf/util/time_util.h>

#include <vector>

#include "coordinator/cli/job_view.h"
#include "coordinator/cli/names.h"
#include "coordinator/cli/render.h"
#include "coordinator/cli/summary.h"

namespace muster {
namespace {

using Json = nlohmann::ordered_json;

const v1::DeviceReading& ReadingOf(const v1::Node& node, uint32_t module) {
  for (const v1::DeviceReading& reading : node.readings()) {
    if (reading.module_id() == module) return reading;
  }
  return v1::DeviceReading::default_instance();
}

std::string OrDash(const std::string& text) { return text.empty() ? "-" : text; }

std::string PortsText(const v1::DeviceReading& reading) {
  if (!reading.has_ports_up()) return "-";
  return fmt::format("{} up, {} down", reading.ports_up(), reading.ports_down());
}

std::string MemoryText(const v1::DeviceReading& reading) {
  if (!reading.has_memory_used_bytes()) return "-";
  const std::string used = FormatBytes(reading.memory_used_bytes());
  return reading.has_memory_total_bytes()
             ? fmt::format("{} of {}", used, FormatBytes(reading.memory_total_bytes()))
             : used;
}

std::string EccText(const v1::DeviceReading& reading) {
  if (!reading.has_ecc_corrected() && !reading.has_ecc_uncorrected()) return "-";
  const auto count = [](bool has, uint64_t n) { return has ? std::to_string(n) : "?"; };
  return fmt::format("{}/{}", count(reading.has_ecc_corrected(), reading.ecc_corrected()),
                     count(reading.has_ecc_uncorrected(), reading.ecc_uncorrected()));
}

template <typename T>
Json OrNull(bool has, T value) {
  return has ? Json(value) : Json(nullptr);
}

}  // namespace

std::string HoldersText(const v1::DeviceReading& reading) {
  std::string text;
  for (const v1::DeviceHolder& holder : reading.holders()) {
    fmt::format_to(std::back_inserter(text), "{}pid {} of {}", text.empty() ? "" : ", ",
                   holder.pid(), holder.user());
    if (!holder.command().empty()) text += fmt::format(" ({})", holder.command());
    if (!holder.job_id().empty()) text += fmt::format(" job {}", holder.job_id());
  }
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return text;
}

std::string RenderNode(const v1::Node& node, int64_t now) {
  v1::ListNodesResponse one;
  *one.add_nodes() = node;
  std::string text = RenderNodes(one, now);
  const v1::DeviceInventory& inventory = node.facts().devices();
  if (!inventory.devices().empty()) {
    std::vector<std::vector<std::string>> rows = {{"MODULE", "INDEX", "PCI", "NUMA", "STATUS",
                                                   "BUSY", "MEMORY", "TEMP", "POWER", "ECC",
                                                   "PORTS", "HOLDER"}};
    for (const v1::Device& card : inventory.devices()) {
      const v1::DeviceReading& reading = ReadingOf(node, card.module_id());
      rows.push_back(
          {std::to_string(card.module_id()), std::to_string(card.index()),
           OrDash(card.pci_address()),
           card.numa_node() < 0 ? "-" : std::to_string(card.numa_node()),
           OrDash(reading.status().empty() ? card.status() : reading.status()),
           reading.has_utilization_percent() ? fmt::format("{} %", reading.utilization_percent())
                                             : "-",
           MemoryText(reading),
           reading.has_temperature_celsius() ? fmt::format("{} C", reading.temperature_celsius())
                                             : "-",
           reading.has_power_milliwatts() ? fmt::format("{} W", reading.power_milliwatts() / 1000)
                                          : "-",
           EccText(reading), PortsText(reading), OrDash(HoldersText(reading))});
    }
    text += "\n" + RenderTable(rows);
    const v1::Device& first = inventory.devices(0);
    text += fmt::format("\ncards from {}; {}, driver {}, firmware {}\n", inventory.source(),
                        OrDash(first.type()), OrDash(first.driver_version()),
                        OrDash(first.firmware_version()));
    text += node.has_readings_time() ? fmt::format("read {}\n", Ago(node.readings_time(), now))
                                     : "not read yet\n";
  }
  for (const v1::Problem& problem : inventory.problems()) {
    text += fmt::format("problem: {}\n", problem.message());
  }
  return text;
}

nlohmann::ordered_json CardsToJson(const v1::Node& node) {
  Json cards = Json::array();
  for (const v1::Device& card : node.facts().devices().devices()) {
    const v1::DeviceReading& r = ReadingOf(node, card.module_id());
    Json json;
    json["module"] = card.module_id();
    json["index"] = card.index();
    json["pci"] = card.pci_address();
    json["numa_node"] = OrNull(card.numa_node() >= 0, card.numa_node());
    json["type"] = card.type();
    json["status"] = r.status().empty() ? card.status() : r.status();
    json["driver"] = card.driver_version();
    json["firmware"] = card.firmware_version();
    json["serial"] = card.serial();
    json["utilization_percent"] = OrNull(r.has_utilization_percent(), r.utilization_percent());
    json["memory_used_bytes"] = OrNull(r.has_memory_used_bytes(), r.memory_used_bytes());
    json["memory_total_bytes"] = OrNull(r.has_memory_total_bytes(), r.memory_total_bytes());
    json["temperature_celsius"] = OrNull(r.has_temperature_celsius(), r.temperature_celsius());
    json["power_milliwatts"] = OrNull(r.has_power_milliwatts(), r.power_milliwatts());
    json["ecc_corrected"] = OrNull(r.has_ecc_corrected(), r.ecc_corrected());
    json["ecc_uncorrected"] = OrNull(r.has_ecc_uncorrected(), r.ecc_uncorrected());
    json["ports_up"] = OrNull(r.has_ports_up(), r.ports_up());
    json["ports_down"] = OrNull(r.has_ports_down(), r.ports_down());
    Json holders = Json::array();
    for (const v1::DeviceHolder& holder : r.holders()) {
      holders.push_back({{"pid", holder.pid()},
                         {"user", holder.user()},
                         {"command", holder.command()},
                         {"job_id", holder.job_id()}});
    }
    json["holders"] = std::move(holders);
    cards.push_back(std::move(json));
  }
  return cards;
}

}  // namespace muster
