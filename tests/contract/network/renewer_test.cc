// The agent's side of renewing, against a coordinator: what is on the disk after each way it can
// go.
#include <sys/stat.h>

#include <future>

#include "common/crypto/csr.h"
#include "common/member/certificate_renewer.h"
#include "common/rpc/member_channel.h"
#include "common/trust/join_client.h"
#include "muster/v1/authority.grpc.pb.h"
#include "muster/v1/trust.grpc.pb.h"
#include "tests/contract/network/network_fixture.h"
#include "tests/testing/temp_folder.h"

namespace muster {
namespace {

using std::chrono::hours;

// The machine's clock, some time later.
class LaterClock final : public Clock {
 public:
  TimePoint Now() const override { return std::chrono::steady_clock::now(); }
  WallTime WallNow() const override { return std::chrono::system_clock::now() + later; }
  std::chrono::seconds later{0};
};

class RenewerTest : public NetworkTest {
 protected:
  void SetUp() override {
    NetworkTest::SetUp();
    const auto stub = v1::TrustService::NewStub(coordinator_->InProcessChannel());
    v1::CreateTokenRequest request;
    request.set_kind(v1::MEMBER_AGENT);
    v1::CreateTokenResponse token;
    const auto context = MakeContext();
    ASSERT_TRUE(stub->CreateToken(context.get(), request, &token).ok());
    const absl::StatusOr<Credentials> joined = Join({.address = address_,
                                                     .token = token.token(),
                                                     .name = "node-1",
                                                     .key = *directory_.PendingKey()},
                                                    SystemClock());
    ASSERT_TRUE(joined.ok()) << joined.status();
    ASSERT_TRUE(directory_.Install(*joined).ok());
  }
  Credentials Current() { return *directory_.Load(); }
  CertificateLook Look() {
    CertificateRenewer renewer(directory_, "", MemberDialer(directory_, ""), clock_);
    return renewer.Look(/*chance=*/0.5);
  }

  TempFolder node_;
  CredentialsDirectory directory_{node_.File("trust")};
  LaterClock clock_;
};

TEST_F(RenewerTest, LeavesAGoodCertificateAlone) {
  const std::string before = Current().certificate.serial();
  const CertificateLook look = Look();
  EXPECT_TRUE(look.status.ok()) << look.status;
  EXPECT_FALSE(look.renewed);
  EXPECT_EQ(look.state, CertificateState::kGood);
  EXPECT_EQ(Current().certificate.serial(), before);
}

TEST_F(RenewerTest, RenewsWhenItIsTime) {
  const Credentials before = Current();
  clock_.later = hours(24 * 13);
  const CertificateLook look = Look();
  EXPECT_TRUE(look.status.ok()) << look.status;
  EXPECT_TRUE(look.renewed);
  EXPECT_EQ(look.former_reconnect_at, ReconnectAt(before.certificate));
  const Credentials after = Current();
  EXPECT_NE(after.certificate.serial(), before.certificate.serial());
  EXPECT_NE(after.key.SpkiSha256(), before.key.SpkiSha256());
  EXPECT_EQ(after.identity, before.identity);
  EXPECT_EQ(look.state, CertificateState::kDue) << "by a clock that is ahead";
  clock_.later = hours(0);
  EXPECT_EQ(Look().state, CertificateState::kGood);
}

TEST_F(RenewerTest, AsksAgainWithTheKeyWhoseAnswerWasLost) {
  const Credentials before = Current();
  // As if the agent had been killed between the coordinator's answer and its own disk.
  v1::RenewCertificateRequest request;
  request.set_csr(MakeCsr(*directory_.PendingKey()));
  MemberClient client;
  const auto lost = client.Renew(Dial(before), request);
  ASSERT_TRUE(lost.ok()) << lost.status();
  clock_.later = hours(24 * 13);
  const CertificateLook look = Look();
  EXPECT_TRUE(look.status.ok()) << look.status;
  EXPECT_EQ(Current().certificate.serial(),
            Certificate::FromPem(lost->certificate_pem())->serial());
}

TEST_F(RenewerTest, KeepsWhatItHasWhenTheNewOneCannotBeStored) {
  const std::string before = Current().certificate.serial();
  clock_.later = hours(24 * 13);
  // Something is in the way of the next set.
  const std::string in_the_way = node_.File("trust") + "/current.new";
  ASSERT_EQ(::mkdir(in_the_way.c_str(), 0700), 0);
  CertificateLook look = Look();
  EXPECT_FALSE(look.status.ok());
  EXPECT_FALSE(look.renewed);
  EXPECT_EQ(Current().certificate.serial(), before);
  ASSERT_EQ(::rmdir(in_the_way.c_str()), 0);
  look = Look();
  EXPECT_TRUE(look.status.ok()) << look.status;
  EXPECT_NE(Current().certificate.serial(), before);
}

TEST_F(RenewerTest, GivesUpOnlyWhatAPersonHasToMend) {
  // A copy of the state has renewed meanwhile.
  MemberClient client;
  v1::RenewCertificateRequest request;
  request.set_csr(MakeCsr(PrivateKey::Generate()));
  ASSERT_TRUE(client.Renew(Dial(Current()), request).ok());
  clock_.later = hours(24 * 13);
  const CertificateLook look = Look();
  EXPECT_TRUE(look.hopeless);
  EXPECT_THAT(std::string(look.status.message()), testing::HasSubstr("newer certificate"));
}

TEST_F(RenewerTest, SaysThatTheNodeWasShutOut) {
  const auto stub = v1::TrustService::NewStub(coordinator_->InProcessChannel());
  v1::RevokeMemberRequest request;
  request.set_kind(v1::MEMBER_AGENT);
  request.set_name("node-1");
  v1::RevokeMemberResponse response;
  const auto context = MakeContext();
  ASSERT_TRUE(stub->RevokeMember(context.get(), request, &response).ok());
  // To gRPC the connection was closed; nothing is due.
  const CertificateLook look = Look();
  EXPECT_EQ(look.state, CertificateState::kGood);
  EXPECT_TRUE(look.hopeless);
  EXPECT_THAT(std::string(look.status.message()), testing::HasSubstr("was revoked"));
}

TEST_F(RenewerTest, FollowsAChangeOfTheAuthority) {
  const auto authority = v1::AuthorityService::NewStub(coordinator_->InProcessChannel());
  v1::Authority answer;
  const auto context = MakeContext();
  ASSERT_TRUE(authority->RotateAuthority(context.get(), {}, &answer).ok());
  const CertificateLook look = Look();
  EXPECT_TRUE(look.renewed) << look.status;
  EXPECT_EQ(Current().ca_bundle.size(), 2u);
}

TEST_F(RenewerTest, CanBeCancelled) {
  CertificateRenewer renewer(directory_, "", MemberDialer(directory_, ""), clock_);
  renewer.Cancel();
  EXPECT_EQ(renewer.Look(0.5).status.code(), absl::StatusCode::kCancelled);
}

class ShortLives : public NetworkTest {
 protected:
  void SetUp() override {
    life_ = std::chrono::seconds(20);
    NetworkTest::SetUp();
  }
};

TEST_F(ShortLives, AConnectionEndsWithItsCertificate) {
  TestAgent agent(
      Dial(Made(Of(IdentityKind::kAgent, "node-1"), -hours(1), std::chrono::seconds(3))), "node-1");
  agent.Join();
  // Reads on until the stream is cut; what comes before are heartbeats.
  while (agent.Read().body_case() != v1::CoordinatorMessage::BODY_NOT_SET) continue;
  EXPECT_FALSE(agent.FinishSession().ok());
  EXPECT_GE(SystemClock().WallNow(), now_ + std::chrono::seconds(3));
}

// Lives so short that they have ended by the coordinator's clock, and not by the node's, which is
// behind.
class SlowClock : public RenewerTest {
 protected:
  void SetUp() override {
    life_ = kMinCertificateLife;
    RenewerTest::SetUp();
  }
};

TEST_F(SlowClock, ComesBackWhenItsCertificateHasEndedByTheCoordinatorsClock) {
  const Credentials before = Current();
  clock_.later = -std::chrono::seconds(3000);
  // Time is what is waited for here.
  std::promise<void>().get_future().wait_until(before.certificate.not_after() +
                                               std::chrono::milliseconds(100));
  const CertificateLook look = Look();
  EXPECT_TRUE(look.renewed) << look.status;
  EXPECT_NE(Current().certificate.serial(), before.certificate.serial());
}

}  // namespace
}  // namespace muster
