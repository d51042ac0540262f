// Which addresses a node can be reached at, the best first. Reading the machine is one function,
// putting what it found in order another that is pure. Thread-safe: there is no state.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// One numeric address of one network interface that is up.
struct InterfaceAddress {
  std::string interface;
  // Without a prefix length or a scope.
  std::string address;
  bool ipv6 = false;
  bool loopback = false;
  // Only valid on its own link (169.254/16, fe80::/10): of no use to other hosts.
  bool link_local = false;
};

// Every address of every interface that is up, as the kernel lists them. Empty when it refuses.
std::vector<InterfaceAddress> ReadInterfaceAddresses();

// Interfaces that carry a default route, from the text of /proc/net/route.
std::set<std::string> ParseDefaultRouteInterfaces(std::string_view route_table);

// Numeric addresses in order of preference: IPv4 before IPv6 before loopback. Within IPv4 and IPv6,
// an interface with a default route comes first and bridges of containers and virtual machines,
// whose addresses are the same on every host, come last. Link-local addresses and repetitions are
// left out.
std::vector<std::string> OrderAddresses(const std::vector<InterfaceAddress>& found,
                                        const std::set<std::string>& default_route_interfaces);

// Addresses of the interfaces that HCCL_SOCKET_IFNAME means: a list of prefixes of names, with
// commas between them; IPv4 only, as HCCL has it, and never an interface of `excluded`. Link-local
// addresses and repetitions are left out.
std::vector<std::string> MatchSocketInterfaces(const std::vector<InterfaceAddress>& found,
                                               std::string_view socket_ifname,
                                               const std::set<std::string>& excluded);

// Interfaces of Gaudi cards, which carry no sockets: those of `found` whose driver is of Habana
// Labs. `sysfs`: where /sys is.
std::set<std::string> GaudiInterfaces(const std::vector<InterfaceAddress>& found,
                                      const std::string& sysfs = "/sys");

}  // namespace muster
