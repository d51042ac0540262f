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
// How long making a connection may take, handshake included: long enough for slow and lossy lines
// and for busy machines, short enough to try twice before a lease runs out.
inline constexpr int kConnectTimeoutMs = 3'000;
static_assert(kMinReceivedPingIntervalMs < kKeepaliveTimeMs);

}  // namespace muster
