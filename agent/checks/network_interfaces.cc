#include "agent/checks/network_interfaces.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <climits>
#include <memory>
#include <string_view>

namespace muster {
namespace {

std::string DriverOf(const std::string& sysroot, const std::string& interface) {
  const std::string link = sysroot + "/sys/class/net/" + interface + "/device/driver";
  std::array<char, PATH_MAX> target = {};
  const ssize_t length = ::readlink(link.c_str(), target.data(), target.size());
  if (length <= 0) return "";
  const std::string_view path(target.data(), static_cast<size_t>(length));
  return std::string(path.substr(path.rfind('/') + 1));
}

std::string SubnetOf(in_addr address, const sockaddr* netmask) {
  // Without a mask it is an address of its own.
  uint32_t mask = UINT32_MAX;
  if (netmask != nullptr) mask = reinterpret_cast<const sockaddr_in*>(netmask)->sin_addr.s_addr;
  address.s_addr &= mask;
  std::array<char, INET_ADDRSTRLEN> text = {};
  ::inet_ntop(AF_INET, &address, text.data(), text.size());
  return fmt::format("{}/{}", text.data(), std::popcount(mask));
}

struct FreeInterfaces {
  void operator()(ifaddrs* list) const { ::freeifaddrs(list); }
};

}  // namespace

std::vector<NetworkInterface> ReadNetworkInterfaces(const std::string& sysroot) {
  std::vector<NetworkInterface> found;
  ifaddrs* raw = nullptr;
  if (::getifaddrs(&raw) != 0) return found;
  const std::unique_ptr<ifaddrs, FreeInterfaces> list(raw);
  for (const ifaddrs* entry = raw; entry != nullptr; entry = entry->ifa_next) {
    auto one = std::find_if(found.begin(), found.end(), [&](const NetworkInterface& seen) {
      return seen.name == entry->ifa_name;
    });
    if (one == found.end()) {
      one = found.insert(found.end(), NetworkInterface{});
      one->name = entry->ifa_name;
      one->up = (entry->ifa_flags & IFF_UP) != 0;
      one->loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
      one->driver = DriverOf(sysroot, one->name);
    }
    if (entry->ifa_addr == nullptr) continue;
    if (entry->ifa_addr->sa_family == AF_INET6) one->has_ipv6 = true;
    if (entry->ifa_addr->sa_family != AF_INET) continue;
    std::array<char, INET_ADDRSTRLEN> text = {};
    const auto& address = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr;
    ::inet_ntop(AF_INET, &address, text.data(), text.size());
    one->ipv4.emplace_back(text.data());
    one->subnets.push_back(SubnetOf(address, entry->ifa_netmask));
  }
  return found;
}

}  // namespace muster
