// When a member's certificate is renewed, and what may still be done once it has ended. Pure.
#pragma once

#include <chrono>
#include <string>

#include "common/base/clock.h"
#include "common/crypto/certificate.h"

namespace muster {

// For how long after its end a certificate lets its member come back.
inline constexpr std::chrono::hours kRejoinLimit{24 * 30};

enum class CertificateState {
  // By this machine's clock, which is behind or wrong.
  kNotYetValid,
  kGood,
  // Good, and to be renewed.
  kDue,
  // Ended; the member may come back with it.
  kEnded,
  // Ended too long ago.
  kLost,
};

// The moment to renew. `chance`: 0 to 1, so that those that were made together are not renewed
// together: at half of the life, up to four fifths of it.
WallTime RenewAt(const Certificate& certificate, double chance);
CertificateState StateOf(const Certificate& certificate, WallTime renew_at, WallTime now);
// How often a member asks whether it should renew before its time: a twentieth of the life, one
// second to one hour.
Duration CheckInterval(const Certificate& certificate);
// Until when a connection that was made with the certificate should be replaced by one with its
// successor: a tenth of the life before it ends.
WallTime ReconnectAt(const Certificate& certificate);

// "6 days", "3 hours", "40 s": what is left until `end`; "none" after it.
std::string LeftText(WallTime end, WallTime now);

}  // namespace muster
