// A tree of files that looks like a node with Gaudi cards: sysfs, device nodes, network ports. For
// `--sysroot` of the agent. The faults of real nodes can be put in; a file that the driver refuses
// to read (ENODEV) is a folder here, which cannot be read either (EISDIR).
#pragma once

#include <fmt/format.h>
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace muster {

struct SimCard {
  uint32_t index = 0;
  uint32_t module = 0;
  std::string status = "Operational";
  std::string type = "GAUDI2 Simulator";
  int numa_node = 0;
  // Ports without a link.
  std::vector<uint32_t> ports_down;
  uint32_t ports = 24;
};

class SimNode {
 public:
  // `root` is made.
  explicit SimNode(std::string root) : root_(std::move(root)) { Folder(""); }

  // Cards 0 to `modules.size()` - 1 with these module ids.
  void AddCards(const std::vector<uint32_t>& modules) {
    for (uint32_t i = 0; i < modules.size(); ++i) {
      Add({.index = i, .module = modules[i], .numa_node = i < modules.size() / 2 ? 0 : 1});
    }
  }

  void Add(const SimCard& card) {
    const std::string device = DeviceFolder(card.index);
    const std::string pci = PciAddress(card.index);
    Write(device + "/module_id", fmt::format("{}\n", card.module));
    Write(device + "/pci_addr", pci + "\n");
    Write(device + "/status", card.status + "\n");
    Write(device + "/device_type", card.type + "\n");
    Write(device + "/driver_ver", "1.20.0-bd47280\n");
    // As the driver has it: without an end of line.
    Write(device + "/fw_os_ver", "hl-gaudi2-1.20.0-fw-58.0.0");
    Unreadable(device + "/max_power");
    const std::string bus = "/sys/bus/pci/devices/" + pci;
    Write(bus + "/numa_node", fmt::format("{}\n", card.numa_node));
    Write(bus + "/local_cpulist", card.numa_node <= 0 ? "0-23,48-71\n" : "24-47,72-95\n");
    for (uint32_t port = 0; port < card.ports; ++port) {
      const std::string interface = fmt::format("{}/net/acc{}p{}", bus, card.index, port);
      Write(interface + "/dev_port", fmt::format("{}\n", port));
      Write(interface + "/operstate", "up\n");
      Write(interface + "/address", fmt::format("b0:fd:0b:00:{:02x}:{:02x}\n", card.index, port));
    }
    for (const uint32_t port : card.ports_down) SetPort(card.index, port, "down");
    Write(fmt::format("/dev/accel/accel{}", card.index), "");
  }

  void SetStatus(uint32_t index, const std::string& status) {
    Write(DeviceFolder(index) + "/status", status + "\n");
  }
  void SetModule(uint32_t index, const std::string& text) {
    Write(DeviceFolder(index) + "/module_id", text);
  }
  void SetPort(uint32_t index, uint32_t port, const std::string& state) {
    Write(fmt::format("/sys/bus/pci/devices/{}/net/acc{}p{}/operstate", PciAddress(index), index,
                      port),
          state + "\n");
  }
  // What every other read of it is like: refused.
  void Unreadable(const std::string& path) {
    std::filesystem::remove_all(root_ + path);
    Folder(path);
  }
  void Remove(const std::string& path) { std::filesystem::remove_all(root_ + path); }

  void Write(const std::string& path, const std::string& text) {
    const std::string full = root_ + path;
    std::filesystem::create_directories(full.substr(0, full.rfind('/')));
    // Replaced as a whole: somebody may be reading it.
    std::ofstream(full + ".new") << text;
    std::filesystem::rename(full + ".new", full);
  }
  void WriteProgram(const std::string& path, const std::string& text) {
    Write(path, text);
    ::chmod((root_ + path).c_str(), 0755);
  }

  static std::string DeviceFolder(uint32_t index) {
    return fmt::format("/sys/class/accel/accel{}/device", index);
  }
  static std::string PciAddress(uint32_t index) {
    return fmt::format("0000:00:{:02x}.0", index + 16);
  }
  std::string NodePath(uint32_t index) const {
    return fmt::format("{}/dev/accel/accel{}", root_, index);
  }
  const std::string& root() const { return root_; }

 private:
  void Folder(const std::string& path) { std::filesystem::create_directories(root_ + path); }

  std::string root_;
};

}  // namespace muster
