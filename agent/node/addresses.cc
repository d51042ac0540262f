#include "agent/node/addresses.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <memory>
#include <tuple>

namespace muster {
namespace {

struct FreeInterfaces {
  void operator()(ifaddrs* list) const { ::freeifaddrs(list); }
};

bool IsLinkLocalV4(const in_addr& address) { return (ntohl(address.s_addr) >> 16) == 0xa9fe; }

// Names that container engines, virtual machine managers and network plugins give to bridges and
// their ends.
bool IsVirtualBridge(std::string_view name) {
  constexpr std::array<std::string_view, 9> kPrefixes = {"docker",  "br-",  "virbr",  "veth", "cni",
                                                         "flannel", "cali", "podman", "lxc"};
  return std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

std::vector<std::string_view> SplitFields(std::string_view line) {
  std::vector<std::string_view> fields;
  constexpr std::string_view kBlank = " \t\r";
  while (true) {
    const size_t begin = line.find_first_not_of(kBlank);
    if (begin == std::string_view::npos) return fields;
    line.remove_prefix(begin);
    const size_t end = std::min(line.find_first_of(kBlank), line.size());
    fields.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

bool ParseHex(std::string_view text, uint32_t* value) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), *value, 16);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

}  // namespace

std::vector<InterfaceAddress> ReadInterfaceAddresses() {
  std::vector<InterfaceAddress> found;
  ifaddrs* raw = nullptr;
  if (::getifaddrs(&raw) != 0) return found;
  const std::unique_ptr<ifaddrs, FreeInterfaces> list(raw);
  for (const ifaddrs* entry = raw; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    InterfaceAddress one;
    one.interface = entry->ifa_name;
    one.loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    std::array<char, INET6_ADDRSTRLEN> text = {};
    if (entry->ifa_addr->sa_family == AF_INET) {
      const auto& address = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr;
      one.link_local = IsLinkLocalV4(address);
      ::inet_ntop(AF_INET, &address, text.data(), text.size());
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
      const auto& address = reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr)->sin6_addr;
      one.ipv6 = true;
      one.link_local = IN6_IS_ADDR_LINKLOCAL(&address);
      ::inet_ntop(AF_INET6, &address, text.data(), text.size());
    } else {
      continue;
    }
    one.address = text.data();
    found.push_back(std::move(one));
  }
  return found;
}

std::set<std::string> ParseDefaultRouteInterfaces(std::string_view route_table) {
  std::set<std::string> interfaces;
  while (!route_table.empty()) {
    const size_t end = std::min(route_table.find('\n'), route_table.size());
    const std::vector<std::string_view> fields = SplitFields(route_table.substr(0, end));
    route_table.remove_prefix(std::min(end + 1, route_table.size()));
    // Iface Destination Gateway Flags RefCnt Use Metric Mask ...; the first line is a heading.
    uint32_t destination = 0;
    uint32_t mask = 0;
    if (fields.size() < 8 || !ParseHex(fields[1], &destination) || !ParseHex(fields[7], &mask))
      continue;
    if (destination == 0 && mask == 0) interfaces.emplace(fields[0]);
  }
  return interfaces;
}

std::vector<std::string> OrderAddresses(const std::vector<InterfaceAddress>& found,
                                        const std::set<std::string>& default_route_interfaces) {
  std::vector<const InterfaceAddress*> order;
  for (const InterfaceAddress& one : found) {
    if (!one.link_local && !one.address.empty()) order.push_back(&one);
  }
  const auto rank = [&](const InterfaceAddress* one) {
    const bool routed = default_route_interfaces.contains(one->interface);
    const int quality = routed ? 0 : IsVirtualBridge(one->interface) ? 2 : 1;
    return std::make_tuple(one->loopback, one->ipv6, quality);
  };
  std::stable_sort(
      order.begin(), order.end(),
      [&](const InterfaceAddress* a, const InterfaceAddress* b) { return rank(a) < rank(b); });
  std::vector<std::string> addresses;
  for (const InterfaceAddress* one : order) {
    if (std::find(addresses.begin(), addresses.end(), one->address) == addresses.end()) {
      addresses.push_back(one->address);
    }
  }
  return addresses;
}

std::vector<std::string> MatchSocketInterfaces(const std::vector<InterfaceAddress>& found,
                                               std::string_view socket_ifname,
                                               const std::set<std::string>& excluded) {
  std::vector<std::string> addresses;
  const auto matches = [&](const std::string& interface) {
    std::string_view rest = socket_ifname;
    while (!rest.empty()) {
      const std::string_view prefix = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(prefix.size() + 1, rest.size()));
      if (!prefix.empty() && interface.starts_with(prefix)) return true;
    }
    return false;
  };
  for (const InterfaceAddress& one : found) {
    if (one.ipv6 || one.link_local || excluded.contains(one.interface)) continue;
    if (!matches(one.interface)) continue;
    if (std::find(addresses.begin(), addresses.end(), one.address) == addresses.end()) {
      addresses.push_back(one.address);
    }
  }
  return addresses;
}

std::set<std::string> GaudiInterfaces(const std::vector<InterfaceAddress>& found,
                                      const std::string& sysfs) {
  std::set<std::string> interfaces;
  for (const InterfaceAddress& one : found) {
    // An alias, "eth0:1", is of the interface before the colon.
    const std::string path =
        sysfs + "/class/net/" + one.interface.substr(0, one.interface.find(':')) + "/device/driver";
    std::array<char, 4096> target = {};
    const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
    if (length <= 0) continue;
    const std::string_view driver(target.data(), static_cast<size_t>(length));
    if (driver.substr(driver.rfind('/') + 1).find("habanalabs") != std::string_view::npos) {
      interfaces.insert(one.interface);
    }
  }
  return interfaces;
}

}  // namespace muster
