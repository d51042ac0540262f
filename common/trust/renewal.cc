#include "common/trust/renewal.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/crypto/issuer.h"

namespace muster {
namespace {

WallTime::duration LifeOf(const Certificate& certificate) {
  return std::max(certificate.not_after() - IssuedAt(certificate), WallTime::duration(0));
}

}  // namespace

WallTime RenewAt(const Certificate& certificate, double chance) {
  const double part = 0.5 + 0.3 * std::clamp(chance, 0.0, 1.0);
  return IssuedAt(certificate) +
         std::chrono::duration_cast<WallTime::duration>(LifeOf(certificate) * part);
}

CertificateState StateOf(const Certificate& certificate, WallTime renew_at, WallTime now) {
  if (now < certificate.not_before()) return CertificateState::kNotYetValid;
  if (now >= certificate.not_after() + kRejoinLimit) return CertificateState::kLost;
  if (now >= certificate.not_after()) return CertificateState::kEnded;
  return now >= renew_at ? CertificateState::kDue : CertificateState::kGood;
}

Duration CheckInterval(const Certificate& certificate) {
  return std::clamp<Duration>(LifeOf(certificate) / 20, std::chrono::seconds(1),
                              std::chrono::hours(1));
}

WallTime ReconnectAt(const Certificate& certificate) {
  return certificate.not_after() - LifeOf(certificate) / 10;
}

std::string LeftText(WallTime end, WallTime now) {
  if (end <= now) return "none";
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(end - now).count();
  constexpr int64_t kHour = 3600;
  constexpr int64_t kDay = 24 * kHour;
  if (seconds >= 2 * kDay) return fmt::format("{} days", seconds / kDay);
  if (seconds >= 2 * kHour) return fmt::format("{} hours", seconds / kHour);
  if (seconds >= 120) return fmt::format("{} minutes", seconds / 60);
  return fmt::format("{} s", seconds);
}

}  // namespace muster
