#include <gmock/gmock.h>

#include "common/base/annotate.h"
#include "common/base/utc.h"
#include "common/crypto/issuer.h"
#include "common/trust/server_chain.h"

namespace muster {
namespace {

using std::chrono::hours;
using ::testing::HasSubstr;

const WallTime kNow{std::chrono::seconds(1'800'000'000)};

struct Cluster {
  std::string id = NewClusterId();
  PrivateKey key = PrivateKey::Generate();
  Certificate ca = *MakeCa(key, id, kNow - hours(1), kNow + hours(1000));

  Certificate Server(IdentityKind kind = IdentityKind::kCoordinator, bool server = true) const {
    return *Issue(ca, key, PrivateKey::Generate().public_key(),
                  {.identity = {id, kind, kind == IdentityKind::kCoordinator ? "" : "x"},
                   .client = true,
                   .server = server,
                   .not_before = kNow - hours(1),
                   .not_after = kNow + hours(10)});
  }
  std::string pin() const { return ca.SpkiSha256(); }
};

absl::StatusOr<Identity> Verify(const std::vector<Certificate>& chain, const std::string& pin,
                                WallTime now = kNow) {
  return VerifyPinnedServer(chain, pin, now, "head:7443");
}

void ExpectForeign(const absl::StatusOr<Identity>& verified) {
  EXPECT_EQ(verified.status().code(), absl::StatusCode::kPermissionDenied) << verified.status();
  EXPECT_THAT(std::string(MessageOf(verified.status())),
              testing::AllOf(HasSubstr("the certificate at head:7443 is not of the cluster that "
                                       "the token names"),
                             HasSubstr("nothing of the token was sent")));
}

TEST(VerifyPinnedServer, TakesTheCoordinatorOfThePinnedCa) {
  const Cluster cluster;
  const auto verified = Verify({cluster.Server(), cluster.ca}, cluster.pin());
  ASSERT_TRUE(verified.ok()) << verified.status();
  EXPECT_EQ(*verified, (Identity{cluster.id, IdentityKind::kCoordinator, ""}));
}

TEST(VerifyPinnedServer, RefusesAnotherCluster) {
  const Cluster cluster;
  const Cluster other;
  ExpectForeign(Verify({other.Server(), other.ca}, cluster.pin()));
  ExpectForeign(Verify({}, cluster.pin()));
  ExpectForeign(Verify({cluster.Server()}, cluster.pin()));
}

TEST(VerifyPinnedServer, RefusesAServerThatOnlyShowsThePinnedCa) {
  const Cluster cluster;
  const Cluster impostor;
  ExpectForeign(Verify({impostor.Server(), cluster.ca}, cluster.pin()));
  ExpectForeign(Verify({impostor.Server(), impostor.ca, cluster.ca}, cluster.pin()));
  ExpectForeign(Verify({cluster.ca}, cluster.pin()));
}

TEST(VerifyPinnedServer, RefusesOtherMembersOfTheCluster) {
  const Cluster cluster;
  ExpectForeign(Verify({cluster.Server(IdentityKind::kAgent, true), cluster.ca}, cluster.pin()));
  ExpectForeign(
      Verify({cluster.Server(IdentityKind::kCoordinator, false), cluster.ca}, cluster.pin()));
  // The pin of a leaf makes it no CA.
  const Certificate leaf = cluster.Server();
  ExpectForeign(Verify({leaf, cluster.ca}, leaf.SpkiSha256()));
}

TEST(VerifyPinnedServer, TellsBothTimes) {
  const Cluster cluster;
  const WallTime early = kNow - hours(3);
  const auto verified = Verify({cluster.Server(), cluster.ca}, cluster.pin(), early);
  EXPECT_EQ(verified.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(MessageOf(verified.status())),
              testing::AllOf(HasSubstr(FormatUtc(early)), HasSubstr(FormatUtc(kNow - hours(1)))));
}

TEST(VerifyPinnedServer, TakesASecondCertificateOfTheSameKey) {
  // The authority of the cluster is being changed: the key has a certificate of each.
  Cluster former;
  Cluster next;
  next.id = former.id;
  next.ca = *MakeCa(next.key, next.id, kNow - hours(1), kNow + hours(1000));
  const PrivateKey key = PrivateKey::Generate();
  const auto certificate = [&](const Cluster& of, const PrivateKey& owner) {
    return *Issue(of.ca, of.key, owner.public_key(),
                  {.identity = {of.id, IdentityKind::kCoordinator, ""},
                   .server = true,
                   .not_before = kNow - hours(1),
                   .not_after = kNow + hours(10)});
  };
  const std::vector<Certificate> chain = {certificate(next, key), certificate(former, key), next.ca,
                                          former.ca};
  EXPECT_TRUE(Verify(chain, former.pin()).ok()) << Verify(chain, former.pin()).status();
  EXPECT_TRUE(Verify(chain, next.pin()).ok());
  EXPECT_TRUE(VerifyCoordinatorChain(chain, {former.ca}, kNow).ok());
  // One of another key proves nothing: anybody can show the coordinator's.
  ExpectForeign(Verify(
      {certificate(next, key), certificate(former, PrivateKey::Generate()), next.ca, former.ca},
      former.pin()));
}

}  // namespace
}  // namespace muster
