#include "agent/daemon/certificate_keeper.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/annotate.h"
#include "common/base/utc.h"
#include "common/log/log.h"
#include "common/rpc/member_channel.h"

namespace muster {
namespace {

constexpr Backoff::Options kBackoff{std::chrono::milliseconds(500), std::chrono::minutes(5)};
// What only a person can mend.
constexpr std::chrono::minutes kHopelessWait{15};
// Timers of the loop do not count while the machine sleeps, and clocks are set.
constexpr Duration kLongestWait = std::chrono::hours(1);
const SystemClock kClock;

Duration Until(WallTime time, WallTime now) {
  return std::max(Duration(time - now), Duration::zero());
}

}  // namespace

CertificateKeeper::CertificateKeeper(Executor& loop, const CredentialsDirectory& directory,
                                     const std::string& target, uint64_t seed,
                                     std::function<void()> reconnect,
                                     std::function<void(const CertificateLook&)> renewed)
    : loop_(loop),
      reconnect_(std::move(reconnect)),
      renewed_(std::move(renewed)),
      renewer_(directory, target, MemberDialer(directory, target), kClock),
      random_(seed),
      backoff_(kBackoff, seed),
      chance_(std::uniform_real_distribution<double>(0, 1)(random_)),
      worker_(std::make_unique<WorkerThread>("certificate")) {}

CertificateKeeper::~CertificateKeeper() {
  *self_ = nullptr;
  loop_.Cancel(look_timer_);
  loop_.Cancel(reconnect_timer_);
  renewer_.Cancel();
  worker_.reset();
}

void CertificateKeeper::Start() { Look(); }

void CertificateKeeper::OnSession() {
  // It was made with the newest certificate.
  loop_.Cancel(std::exchange(reconnect_timer_, 0));
  if (waiting_) LookAfter(Duration::zero());
}

void CertificateKeeper::OnSessionLost() {
  // Most often the coordinator is back by then.
  std::uniform_int_distribution<int> milliseconds(1000, 3000);
  if (!looking_) LookAfter(std::chrono::milliseconds(milliseconds(random_)));
}

void CertificateKeeper::LookAfter(Duration wait) {
  loop_.Cancel(std::exchange(look_timer_, 0));
  look_timer_ = loop_.PostAfter(std::min(wait, kLongestWait), [this] {
    look_timer_ = 0;
    Look();
  });
}

void CertificateKeeper::Look() {
  if (std::exchange(looking_, true)) return;
  worker_->Post([this, chance = chance_, self = self_] {
    CertificateLook look = renewer_.Look(chance);
    loop_.Post([look = std::move(look), self] {
      if (*self != nullptr) (*self)->OnLooked(look);
    });
  });
}

void CertificateKeeper::OnLooked(const CertificateLook& look) {
  looking_ = false;
  waiting_ = !look.status.ok();
  const WallTime now = kClock.WallNow();
  Tell(look, now);
  if (look.renewed) {
    renewed_(look);
    chance_ = std::uniform_real_distribution<double>(0, 1)(random_);
    ReconnectAfter(Until(look.former_reconnect_at, now));
  }
  if (look.hopeless) return LookAfter(kHopelessWait);
  if (!look.status.ok()) {
    // Never so long that the rest of the life goes by.
    const Duration wait = std::min<Duration>(backoff_.Next(), look.check_interval * 2);
    return LookAfter(wait);
  }
  backoff_.Reset();
  // Those that were started together do not ask together.
  const double part = std::uniform_real_distribution<double>(0.7, 1.0)(random_);
  const auto check = std::chrono::duration_cast<Duration>(look.check_interval * part);
  // After a renewal at once: the coordinator hears that it arrived. Not if the new certificate is
  // due by this machine's clock, which is ahead then: it would be renewed without end.
  if (look.renewed) {
    return LookAfter(look.state == CertificateState::kGood ? Duration::zero()
                                                           : Duration(look.check_interval));
  }
  LookAfter(std::min(check, Until(look.renew_at, now)));
}

void CertificateKeeper::Tell(const CertificateLook& look, WallTime now) {
  const std::string left = LogQuoted(LeftText(look.not_after, now));
  if (look.renewed) {
    spdlog::info("certificate renewed until={} next={}", FormatUtc(look.not_after),
                 FormatUtc(look.renew_at));
    return;
  }
  if (look.state == CertificateState::kNotYetValid && !std::exchange(told_early_, true)) {
    spdlog::warn(
        "certificate is not yet valid: one of two clocks is wrong clock_here={} "
        "clock_of_the_coordinator_when_it_was_made={}",
        FormatUtc(now), FormatUtc(look.made_at));
  }
  const bool matters = look.hopeless || look.state != CertificateState::kGood;
  if (look.status.ok() || !matters) return;
  const std::string error = LogQuoted(MessageOf(look.status));
  if (look.hopeless) {
    spdlog::error("certificate is not renewed left={} error={}", left, error);
  } else {
    spdlog::warn("certificate not renewed yet left={} error={}", left, error);
  }
}

void CertificateKeeper::ReconnectAfter(Duration wait) {
  loop_.Cancel(std::exchange(reconnect_timer_, 0));
  reconnect_timer_ = loop_.PostAfter(wait, [this] {
    reconnect_timer_ = 0;
    spdlog::info("connections are made anew with the newest certificate");
    reconnect_();
  });
}

}  // namespace muster
