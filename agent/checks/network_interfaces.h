// The network interfaces of a node, up or down, with the driver behind each. Reads the kernel only.
#pragma once

#include <string>
#include <vector>

namespace muster {

struct NetworkInterface {
  std::string name;
  bool up = false;
  bool loopback = false;
  // Numeric.
  std::vector<std::string> ipv4;
  // Of each of `ipv4`, `10.0.1.0/24`.
  std::vector<std::string> subnets;
  bool has_ipv6 = false;
  // Name of its kernel driver; empty for those without hardware.
  std::string driver;

  // A port of a Gaudi card, which the libraries for its network never use as a socket interface.
  bool is_gaudi() const { return driver.find("habanalabs") != std::string::npos; }
};

// In the kernel's order. `sysroot` is put in front of /sys.
std::vector<NetworkInterface> ReadNetworkInterfaces(const std::string& sysroot);

}  // namespace muster
