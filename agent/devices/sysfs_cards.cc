#include "agent/devices/sysfs_cards.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/devices/attribute.h"
#include "common/base/annotate.h"

namespace muster {
namespace {

constexpr std::string_view kHabanaVendor = "0x1da3";
constexpr size_t kMostPorts = 64;
// More than any board has.
constexpr uint32_t kHighestModule = 4095;

// Where one generation of the driver shows its cards.
struct Layout {
  const char* folder;
  const char* prefix;
  const char* nodes;
};
constexpr Layout kAccel = {"/sys/class/accel", "accel", "/dev/accel/accel"};
constexpr Layout kLegacy = {"/sys/class/habanalabs", "hl", "/dev/hl"};

bool Exists(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0;
}

// Ports that leave the machine, on the boards that are known.
bool IsExternalPort(std::string_view type, uint32_t port) {
  if (type.starts_with("GAUDI2")) return port == 8 || port == 22 || port == 23;
  if (type.starts_with("GAUDI3")) return false;
  return port == 1 || port == 8 || port == 9;
}

void Tell(v1::DeviceInventory& inventory, const char* check, std::string message) {
  v1::Problem& problem = *inventory.add_problems();
  problem.set_check(check);
  problem.set_message(std::move(message));
}

// Last part of what the `device` link leads to: the PCI address of a real card.
std::string AddressOfLink(const std::string& card) {
  std::array<char, 4096> target;
  const ssize_t size = ::readlink((card + "/device").c_str(), target.data(), target.size());
  if (size <= 0) return "";
  const std::string_view path(target.data(), static_cast<size_t>(size));
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return std::count(name.begin(), name.end(), ':') == 2 ? std::string(name) : "";
}

class CardReader {
 public:
  CardReader(const std::string& root, const Layout& layout, v1::DeviceInventory& inventory)
      : root_(root), layout_(layout), inventory_(inventory) {}

  void Read(uint32_t index, const std::string& name) {
    const std::string card = root_ + layout_.folder + "/" + name;
    const std::string device = card + "/device/";
    const std::string vendor = AttributeOr(device + "vendor");
    if (!vendor.empty() && vendor != kHabanaVendor) return;
    const std::string type = AttributeOr(device + "device_type");
    if (!type.empty() && !type.starts_with("GAUDI")) return;
    const absl::StatusOr<std::string> module = ReadAttribute(device + "module_id");
    // An accelerator that says neither is not known to be one of ours.
    if (type.empty() && vendor.empty() && absl::IsNotFound(module.status())) return;

    v1::Device out;
    out.set_index(index);
    out.set_type(type);
    out.set_pci_address(AttributeOr(device + "pci_addr"));
    if (out.pci_address().empty()) out.set_pci_address(AddressOfLink(card));
    const std::optional<uint32_t> id = module.ok() ? ParseNumber(*module) : std::nullopt;
    if (!id.has_value() || *id > kHighestModule) {
      Tell(inventory_, "card-module",
           fmt::format("{} cannot be used, its module id is not known: {}", NameOfCard(out),
                       module.ok() ? fmt::format("module_id says \"{}\"", *module)
                                   : std::string(MessageOf(module.status()))));
      return;
    }
    out.set_module_id(*id);
    ReadStatus(device, out);
    out.set_driver_version(AttributeOr(device + "driver_ver"));
    if (out.driver_version().empty()) {
      out.set_driver_version(AttributeOr(root_ + "/sys/module/habanalabs/version"));
    }
    for (const char* attribute : {"fw_os_ver", "cpucp_ver", "armcp_ver"}) {
      if (!out.firmware_version().empty()) break;
      out.set_firmware_version(AttributeOr(device + attribute));
    }
    SetPlace(device, out);
    SetNode(out);
    *inventory_.add_devices() = std::move(out);
  }

  // Told once for all: in a container the kernel shows cards that it was not given.
  void Finish() {
    if (nodeless_.empty()) return;
    Tell(inventory_, "card-node",
         fmt::format("{} cannot be used, no device node is there: {}",
                     fmt::format("card{} of index {}", nodeless_.size() == 1 ? "" : "s",
                                 fmt::join(nodeless_, ", ")),
                     nodeless_.size() == 1 ? fmt::format("{}{}", layout_.nodes, nodeless_.front())
                                           : fmt::format("{}N", layout_.nodes)));
  }

 private:
  void ReadStatus(const std::string& device, v1::Device& out) {
    const absl::StatusOr<std::string> status = ReadAttribute(device + "status");
    if (status.ok() && !status->empty()) {
      out.set_status(*status);
      return;
    }
    out.set_status("unknown");
    Tell(inventory_, "card-status",
         fmt::format("{}, module {}, cannot be used, its status cannot be read: {}",
                     NameOfCard(out), out.module_id(),
                     status.ok() ? "it is empty" : std::string(MessageOf(status.status()))));
  }

  void SetPlace(const std::string& device, v1::Device& out) {
    // In a real tree both lead to the same; a simulated one may have either.
    std::vector<std::string> places = {device};
    if (!out.pci_address().empty() && out.pci_address().find('/') == std::string::npos) {
      places.insert(places.begin(),
                    fmt::format("{}/sys/bus/pci/devices/{}/", root_, out.pci_address()));
    }
    std::string node;
    for (const std::string& place : places) {
      if (node.empty()) node = AttributeOr(place + "numa_node");
      if (out.local_cpus().empty()) out.set_local_cpus(AttributeOr(place + "local_cpulist"));
      if (out.ports().empty()) ReadPorts(place + "net", out);
    }
    const std::optional<uint32_t> number = ParseNumber(node);
    out.set_numa_node(
        number.has_value() && *number <= kHighestModule ? static_cast<int32_t>(*number) : -1);
  }

  static void ReadPorts(const std::string& folder, v1::Device& out) {
    std::vector<v1::DevicePort> ports;
    for (const std::string& name : EntriesOf(folder, kMostPorts)) {
      const std::string interface = folder + "/" + name + "/";
      const std::optional<uint32_t> number = ParseNumber(AttributeOr(interface + "dev_port"));
      if (!number.has_value()) continue;
      v1::DevicePort& port = ports.emplace_back();
      port.set_port(*number);
      port.set_interface(name);
      port.set_up(AttributeOr(interface + "operstate") == "up");
      port.set_external(IsExternalPort(out.type(), *number));
    }
    std::stable_sort(ports.begin(), ports.end(),
                     [](const auto& a, const auto& b) { return a.port() < b.port(); });
    out.mutable_ports()->Assign(ports.begin(), ports.end());
  }

  void SetNode(v1::Device& out) {
    const std::string node = fmt::format("{}{}{}", root_, layout_.nodes, out.index());
    const std::string folder = node.substr(0, node.rfind('/'));
    // A simulated tree need not have a /dev; a machine without one lets nobody open a card.
    if (Exists(node) || (!root_.empty() && !Exists(folder))) {
      out.set_device_node(node);
    } else {
      nodeless_.push_back(out.index());
    }
  }

  const std::string& root_;
  const Layout& layout_;
  v1::DeviceInventory& inventory_;
  std::vector<uint32_t> nodeless_;
};

}  // namespace

std::string NameOfCard(const v1::Device& device) {
  std::string name = fmt::format("the card of index {}", device.index());
  if (!device.pci_address().empty()) name += fmt::format(" at {}", device.pci_address());
  return name;
}

std::string StatusPathOf(const std::string& root, const v1::Device& device) {
  const bool legacy = device.device_node().find("/dev/hl") != std::string::npos;
  const Layout& layout = legacy ? kLegacy : kAccel;
  return fmt::format("{}{}/{}{}/device/status", root, layout.folder, layout.prefix, device.index());
}

v1::DeviceInventory ReadSysfsCards(const std::string& root, size_t most_cards) {
  v1::DeviceInventory inventory;
  for (const Layout& layout : {kAccel, kLegacy}) {
    CardReader reader(root, layout, inventory);
    for (const auto& [index, name] :
         NumberedEntries(root + layout.folder, layout.prefix, most_cards)) {
      reader.Read(index, name);
    }
    reader.Finish();
    // The newer driver shows its cards in the old place, too.
    if (!inventory.devices().empty() || !inventory.problems().empty()) break;
  }
  if (!inventory.devices().empty()) inventory.set_source("sysfs");
  return inventory;
}

}  // namespace muster
