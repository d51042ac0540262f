// Numeric addresses and networks of them. An IPv4 address that IPv6 has wrapped (::ffff:a.b.c.d) is
// the IPv4 address. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster {

struct IpAddress {
  bool v4 = false;
  // Of IPv4 the first four.
  std::array<uint8_t, 16> bytes = {};
  friend bool operator==(const IpAddress&, const IpAddress&) = default;
};

struct IpNetwork {
  IpAddress address;
  int prefix_bits = 0;
};

std::optional<IpAddress> ParseIpAddress(std::string_view text);
// `10.0.0.0/8`, `2001:db8::/32`, or one address. Nothing when it is none, or has bits set after the
// prefix.
std::optional<IpNetwork> ParseIpNetwork(std::string_view text);
bool Contains(const IpNetwork& network, const IpAddress& address);

// What one owner can be expected to have, as bytes: an IPv4 address, the first half of an IPv6 one.
// The text itself when it is no address.
std::string IpOwner(std::string_view address);

}  // namespace muster
