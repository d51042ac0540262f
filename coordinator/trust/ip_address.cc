#include "coordinator/trust/ip_address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

namespace muster {
namespace {

constexpr std::array<uint8_t, 12> kWrappedV4 = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr size_t kV4Bytes = 4;
constexpr size_t kOwnerBytes = 8;

}  // namespace

std::optional<IpAddress> ParseIpAddress(std::string_view text) {
  // inet_pton would stop at a zero byte.
  if (text.find('\0') != std::string_view::npos) return std::nullopt;
  const std::string terminated(text);
  IpAddress address;
  if (::inet_pton(AF_INET, terminated.c_str(), address.bytes.data()) == 1) {
    address.v4 = true;
    return address;
  }
  if (::inet_pton(AF_INET6, terminated.c_str(), address.bytes.data()) != 1) return std::nullopt;
  if (std::equal(kWrappedV4.begin(), kWrappedV4.end(), address.bytes.begin())) {
    IpAddress inner;
    inner.v4 = true;
    std::copy_n(address.bytes.begin() + kWrappedV4.size(), kV4Bytes, inner.bytes.begin());
    return inner;
  }
  return address;
}

std::optional<IpNetwork> ParseIpNetwork(std::string_view text) {
  const size_t slash = text.find('/');
  const std::optional<IpAddress> address = ParseIpAddress(text.substr(0, slash));
  if (!address) return std::nullopt;
  const int most = address->v4 ? 32 : 128;
  IpNetwork network{*address, most};
  if (slash == std::string_view::npos) return network;
  const std::string_view digits = text.substr(slash + 1);
  if (digits.empty() || digits.size() > 3) return std::nullopt;
  network.prefix_bits = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return std::nullopt;
    network.prefix_bits = network.prefix_bits * 10 + (c - '0');
  }
  if (network.prefix_bits > most) return std::nullopt;
  for (int bit = network.prefix_bits; bit < most; ++bit) {
    if ((address->bytes[static_cast<size_t>(bit) / 8] >> (7 - bit % 8) & 1) != 0) {
      return std::nullopt;
    }
  }
  return network;
}

bool Contains(const IpNetwork& network, const IpAddress& address) {
  if (network.address.v4 != address.v4) return false;
  for (int bit = 0; bit < network.prefix_bits; ++bit) {
    const auto byte = static_cast<size_t>(bit) / 8;
    if (((network.address.bytes[byte] ^ address.bytes[byte]) >> (7 - bit % 8) & 1) != 0) {
      return false;
    }
  }
  return true;
}

std::string IpOwner(std::string_view address) {
  const std::optional<IpAddress> parsed = ParseIpAddress(address);
  if (!parsed) return std::string(address);
  return {reinterpret_cast<const char*>(parsed->bytes.data()), parsed->v4 ? kV4Bytes : kOwnerBytes};
}

}  // namespace muster
