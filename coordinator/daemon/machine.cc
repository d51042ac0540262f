#include "coordinator/daemon/machine.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

#include "common/base/annotate.h"

namespace muster {

absl::StatusOr<std::string> FindProgram(const std::string& name) {
  const char* directory = ::getenv("MUSTER_BIN_DIR");
  std::string path;
  if (directory != nullptr && *directory != 0) {
    path = directory;
  } else {
    std::array<char, 4096> self{};
    const ssize_t length = ::readlink("/proc/self/exe", self.data(), self.size());
    if (length < 0 || static_cast<size_t>(length) == self.size()) {
      return absl::NotFoundError("the folder of this program cannot be told: set MUSTER_BIN_DIR");
    }
    path.assign(self.data(), static_cast<size_t>(length));
    path.erase(path.rfind('/'));
  }
  path += "/" + name;
  if (::access(path.c_str(), X_OK) == 0) return path;
  return absl::NotFoundError(
      fmt::format("{} cannot be executed ({}): install it beside the coordinator, or set "
                  "MUSTER_BIN_DIR",
                  path, MessageOf(ErrnoStatus(errno, "access"))));
}

std::vector<std::string> MachineAddresses() {
  // Rank first, so that sorting orders by preference and keeps the order of the interfaces.
  std::vector<std::pair<int, std::string>> found;
  ifaddrs* raw = nullptr;
  if (::getifaddrs(&raw) != 0) return {"127.0.0.1"};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> list(raw, &::freeifaddrs);
  for (const ifaddrs* entry = raw; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const bool loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (entry->ifa_addr->sa_family == AF_INET) {
      const auto* address = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
      if (::inet_ntop(AF_INET, &address->sin_addr, text.data(), text.size()) == nullptr) continue;
      found.emplace_back(loopback ? 0 : 1, text.data());
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
      const auto* address = reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr);
      if (IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr)) continue;
      if (::inet_ntop(AF_INET6, &address->sin6_addr, text.data(), text.size()) == nullptr) continue;
      found.emplace_back(loopback ? 3 : 2, text.data());
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> addresses;
  for (auto& [rank, address] : found) {
    if (std::find(addresses.begin(), addresses.end(), address) == addresses.end()) {
      addresses.push_back(std::move(address));
    }
  }
  if (addresses.empty()) addresses.push_back("127.0.0.1");
  return addresses;
}

}  // namespace muster
