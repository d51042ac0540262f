#include "common/trust/renewal.h"

#include <gmock/gmock.h>

#include "common/crypto/issuer.h"

namespace muster {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

const WallTime kNow{seconds(1'800'000'000)};

// Made at kNow.
Certificate GoodFor(WallTime::duration life) {
  const std::string cluster = NewClusterId();
  const PrivateKey ca_key = PrivateKey::Generate();
  const auto ca = MakeCa(ca_key, cluster, kNow - kBackdate, kNow + hours(24 * 4000));
  return *Issue(*ca, ca_key, PrivateKey::Generate().public_key(),
                {.identity = {cluster, IdentityKind::kAgent, "node-1"},
                 .client = true,
                 .not_before = kNow - kBackdate,
                 .not_after = kNow + life});
}

TEST(RenewAt, IsBetweenHalfAndFourFifthsOfTheLife) {
  for (const WallTime::duration life :
       {WallTime::duration(seconds(10)), WallTime::duration(hours(24 * 14))}) {
    const Certificate certificate = GoodFor(life);
    EXPECT_EQ(RenewAt(certificate, 0), kNow + life / 2);
    EXPECT_EQ(RenewAt(certificate, 1), kNow + life * 4 / 5);
    EXPECT_EQ(RenewAt(certificate, -7), kNow + life / 2);
    EXPECT_EQ(RenewAt(certificate, 7), kNow + life * 4 / 5);
    EXPECT_EQ(ReconnectAt(certificate), kNow + life * 9 / 10);
  }
}

TEST(StateOf, FollowsTheClock) {
  const Certificate certificate = GoodFor(hours(100));
  const WallTime renew_at = RenewAt(certificate, 0.5);
  const auto state = [&](WallTime now) { return StateOf(certificate, renew_at, now); };
  EXPECT_EQ(state(kNow - kBackdate - seconds(1)), CertificateState::kNotYetValid);
  EXPECT_EQ(state(kNow - kBackdate), CertificateState::kGood) << "back-dated by an hour";
  EXPECT_EQ(state(kNow), CertificateState::kGood);
  EXPECT_EQ(state(renew_at), CertificateState::kDue);
  EXPECT_EQ(state(kNow + hours(100) - seconds(1)), CertificateState::kDue);
  EXPECT_EQ(state(kNow + hours(100)), CertificateState::kEnded);
  EXPECT_EQ(state(kNow + hours(100) + kRejoinLimit - seconds(1)), CertificateState::kEnded);
  EXPECT_EQ(state(kNow + hours(100) + kRejoinLimit), CertificateState::kLost);
}

TEST(CheckInterval, IsAnHourAtMostAndASecondAtLeast) {
  EXPECT_EQ(CheckInterval(GoodFor(hours(24 * 14))), hours(1));
  EXPECT_EQ(CheckInterval(GoodFor(hours(10))), std::chrono::minutes(30));
  EXPECT_EQ(CheckInterval(GoodFor(seconds(10))), seconds(1));
}

TEST(LeftText, IsForPeople) {
  EXPECT_EQ(LeftText(kNow + hours(24 * 6 + 5), kNow), "6 days");
  EXPECT_EQ(LeftText(kNow + hours(47), kNow), "47 hours");
  EXPECT_EQ(LeftText(kNow + seconds(600), kNow), "10 minutes");
  EXPECT_EQ(LeftText(kNow + seconds(59), kNow), "59 s");
  EXPECT_EQ(LeftText(kNow, kNow), "none");
}

}  // namespace
}  // namespace muster
