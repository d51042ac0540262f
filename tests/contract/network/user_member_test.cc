// What users do about their own certificates over the network port.
#include <fcntl.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>

#include "common/crypto/csr.h"
#include "common/member/certificate_renewer.h"
#include "common/trust/join_client.h"
#include "coordinator/cli/own_certificate.h"
#include "coordinator/trust/trust_directory.h"
#include "muster/v1/authority.grpc.pb.h"
#include "muster/v1/member.grpc.pb.h"
#include "muster/v1/trust.grpc.pb.h"
#include "tests/contract/network/network_fixture.h"
#include "tests/testing/temp_folder.h"

namespace muster {
namespace {

using std::chrono::hours;
using ::testing::HasSubstr;

class LaterClock final : public Clock {
 public:
  TimePoint Now() const override { return std::chrono::steady_clock::now(); }
  WallTime WallNow() const override { return std::chrono::system_clock::now() + later; }
  std::chrono::seconds later{0};
};

class UserMemberTest : public NetworkTest {
 protected:
  // On a machine of its own each time.
  Credentials JoinAs(const std::string& name, const PrivateKey& key = PrivateKey::Generate()) {
    const auto stub = v1::TrustService::NewStub(coordinator_->InProcessChannel());
    v1::CreateTokenRequest request;
    request.set_kind(v1::MEMBER_USER);
    request.set_name(name);
    v1::CreateTokenResponse token;
    const auto context = MakeContext();
    EXPECT_TRUE(stub->CreateToken(context.get(), request, &token).ok());
    const absl::StatusOr<Credentials> joined =
        Join({.address = address_, .token = token.token(), .kind = IdentityKind::kUser, .key = key},
             SystemClock());
    EXPECT_TRUE(joined.ok()) << joined.status();
    return *joined;
  }
  absl::StatusOr<Certificate> Renew(const Credentials& user, const PrivateKey& key) {
    MemberClient client;
    v1::RenewCertificateRequest request;
    request.set_csr(MakeCsr(key));
    const auto response = client.Renew(Dial(user), request);
    if (!response.ok()) return response.status();
    return Certificate::FromPem(response->certificate_pem());
  }
  absl::Status WhyNotRenewed(const Credentials& user) {
    return Renew(user, PrivateKey::Generate()).status();
  }
  Credentials With(const Credentials& user, const PrivateKey& key, const Certificate& renewed) {
    Credentials next = user;
    next.key = key;
    next.certificate = renewed;
    return next;
  }
  void Revoke(const std::string& name) {
    const auto stub = v1::TrustService::NewStub(coordinator_->InProcessChannel());
    v1::RevokeMemberRequest request;
    request.set_kind(v1::MEMBER_USER);
    request.set_name(name);
    v1::RevokeMemberResponse response;
    const auto context = MakeContext();
    EXPECT_TRUE(stub->RevokeMember(context.get(), request, &response).ok());
  }
  v1::Authority Authority(bool rotate) {
    const auto stub = v1::AuthorityService::NewStub(coordinator_->InProcessChannel());
    v1::Authority answer;
    const auto context = MakeContext();
    const grpc::Status status = rotate ? stub->RotateAuthority(context.get(), {}, &answer)
                                       : stub->GetAuthority(context.get(), {}, &answer);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return answer;
  }
  std::string AuditText() {
    std::ifstream in(folder_ + "/trust/audit.jsonl");
    return {std::istreambuf_iterator<char>(in), {}};
  }
};

TEST_F(UserMemberTest, AUserRenewsTheOwnIdentityForThirtyDays) {
  const Credentials alice = JoinAs("alice");
  const PrivateKey key = PrivateKey::Generate();
  const absl::StatusOr<Certificate> renewed = Renew(alice, key);
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  EXPECT_EQ(*IdentityOf(*renewed), alice.identity);
  // Whole seconds.
  EXPECT_GT(renewed->not_after(), now_ + kUserLife - std::chrono::minutes(1));
  EXPECT_THAT(AuditText(), HasSubstr("\"event\":\"renew\",\"decision\":\"allowed\",\"who\":\"" +
                                     ToUri(alice.identity)));
  // Asked again, as the answer may have been lost.
  EXPECT_EQ(Renew(alice, key)->serial(), renewed->serial());
  EXPECT_TRUE(WhyNotRenewed(With(alice, key, *renewed)).ok());
}

TEST_F(UserMemberTest, EachMachineOfAUserRenewsItsOwn) {
  const Credentials laptop = JoinAs("alice");
  const Credentials desktop = JoinAs("alice");
  for (const Credentials& machine : {laptop, desktop}) {
    const PrivateKey key = PrivateKey::Generate();
    const absl::StatusOr<Certificate> renewed = Renew(machine, key);
    ASSERT_TRUE(renewed.ok()) << renewed.status();
    EXPECT_TRUE(WhyNotRenewed(With(machine, key, *renewed)).ok());
  }
}

TEST_F(UserMemberTest, ACopyIsNotRenewed) {
  const Credentials alice = JoinAs("alice");
  ASSERT_TRUE(Renew(alice, PrivateKey::Generate()).ok());
  const absl::Status refused = WhyNotRenewed(alice);
  EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("join again with a new token of `coordinator user add alice`"));
  EXPECT_THAT(AuditText(), HasSubstr("SUPERSEDED"));
}

TEST_F(UserMemberTest, WhoWasRevokedOrHasEndedGetsNone) {
  const Credentials alice = JoinAs("alice");
  const auto channel = Dial(alice);
  ASSERT_TRUE(channel->WaitForConnected(TestDeadline()));
  Revoke("alice");
  MemberClient client;
  v1::RenewCertificateRequest request;
  request.set_csr(MakeCsr(PrivateKey::Generate()));
  // Over a connection from before, and over one from after.
  EXPECT_FALSE(client.Renew(channel, request).ok());
  EXPECT_FALSE(WhyNotRenewed(alice).ok());
  const Identity bob = Of(IdentityKind::kUser, "bob");
  EXPECT_FALSE(WhyNotRenewed(Made(bob, -hours(3), -hours(2))).ok()) << "ended";
  EXPECT_THAT(AuditText(), testing::Not(HasSubstr("\"event\":\"renew\",\"decision\":\"allowed\"")));
}

TEST_F(UserMemberTest, WhoIsNotOnRecordGetsNone) {
  JoinAs("alice");
  // The cluster's CA made these, but nobody joined with them.
  for (const Identity& stranger : {Of(IdentityKind::kUser, "alice"), Of(IdentityKind::kUser, "bob"),
                                   Of(IdentityKind::kAgent, "alice")}) {
    EXPECT_TRUE(absl::IsNotFound(WhyNotRenewed(Made(stranger)))) << ToUri(stranger);
  }
  const absl::Status admin = WhyNotRenewed(Made(Of(IdentityKind::kAdmin, "root")));
  EXPECT_TRUE(absl::IsFailedPrecondition(admin)) << admin;
  MemberClient client;
  v1::RenewCertificateRequest request;
  request.set_csr(MakeCsr(PrivateKey::Generate()));
  EXPECT_TRUE(
      absl::IsFailedPrecondition(client.Renew(coordinator_->InProcessChannel(), request).status()))
      << "the owner, without a certificate";
}

TEST_F(UserMemberTest, IsRenewedPastHalfOfItsLife) {
  TempFolder home;
  const CredentialsDirectory directory(home.File("trust"));
  ASSERT_TRUE(directory.Install(JoinAs("alice", *directory.PendingKey())).ok());
  const std::string before = directory.Load()->certificate.serial();
  LaterClock clock;
  CertificateRenewer renewer(directory, address_, MemberDialer(directory, address_), clock);
  clock.later = hours(24 * 14);
  EXPECT_FALSE(renewer.Look(/*chance=*/0).renewed);
  clock.later = hours(24 * 15 + 1);
  const CertificateLook look = renewer.Look(/*chance=*/0);
  EXPECT_TRUE(look.renewed) << look.status;
  EXPECT_NE(directory.Load()->certificate.serial(), before);
}

TEST_F(UserMemberTest, AnyLookLetsAChangeOfTheAuthorityGoOn) {
  TempFolder home;
  const CredentialsDirectory directory(home.File("trust"));
  ASSERT_TRUE(directory.Install(JoinAs("alice", *directory.PendingKey())).ok());
  const v1::Authority begun = Authority(/*rotate=*/true);
  ASSERT_EQ(begun.awaited_size(), 1);
  EXPECT_EQ(begun.awaited(0).name(), "alice");
  const SystemClock clock;
  CertificateRenewer renewer(directory, address_, MemberDialer(directory, address_), clock);
  EXPECT_TRUE(renewer.Look(/*chance=*/0).renewed);
  EXPECT_EQ(directory.Load()->ca_bundle.size(), 2u);
  // The coordinator hears that it arrived.
  EXPECT_FALSE(renewer.Look(/*chance=*/0).renewed);
  EXPECT_EQ(Authority(/*rotate=*/false).awaited_size(), 0);
}

TEST_F(UserMemberTest, IsToldOnceADayWhyACertificateIsNotRenewedWhoseEndIsNear) {
  TempFolder home;
  const auto use = [&](const Credentials& credentials) {
    testing::internal::CaptureStderr();
    HaveCertificateLookedAfter(home.path(), credentials, address_, SystemClock().WallNow());
    return testing::internal::GetCapturedStderr();
  };
  const std::string renewal = home.File("renewal");
  std::ofstream(renewal) << "it was revoked";
  const timespec long_ago[2] = {{1, 0}, {1, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, renewal.c_str(), long_ago, 0), 0);
  const Identity alice = Of(IdentityKind::kUser, "alice");
  const std::string part = "is not renewed: \"it was revoked\"";
  EXPECT_THAT(use(Made(alice, -hours(50), hours(50))), testing::Not(HasSubstr(part)));
  EXPECT_THAT(use(Made(alice, -hours(90), hours(10))), HasSubstr(part));
  EXPECT_THAT(use(Made(alice, -hours(90), hours(10))), testing::Not(HasSubstr(part)));
}

}  // namespace
}  // namespace muster
