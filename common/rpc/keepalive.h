// The keepalive settings, which only work as a pair: a server that expects rarer pings than its
// clients send ends their connections. Constants only.
#pragma once

namespace muster {

// Silence after which either end pings the other.
inline constexpr int kKeepaliveTimeMs = 10'000;
// A ping that is not answered within this time ends the connection.
inline constexpr int kKeepaliveTimeoutMs = 5'000;
// Pings of clients that come faster than this are suspicious. Must be below kKeepaliveTimeMs.
inline constexpr int kMinReceivedPingIntervalMs = 5'000;
static_assert(kMinReceivedPingIntervalMs < kKeepaliveTimeMs);

}  // namespace muster
