// What members do about their own certificates over the network port.
#include <fstream>
#include <iterator>

#include "common/crypto/csr.h"
#include "common/trust/join_client.h"
#include "muster/v1/authority.grpc.pb.h"
#include "muster/v1/member.grpc.pb.h"
#include "muster/v1/trust.grpc.pb.h"
#include "tests/contract/network/network_fixture.h"

namespace muster {
namespace {

class MemberTest : public NetworkTest {
 protected:
  Credentials JoinAs(const std::string& name) {
    const auto stub = v1::TrustService::NewStub(coordinator_->InProcessChannel());
    v1::CreateTokenRequest request;
    request.set_kind(v1::MEMBER_AGENT);
    v1::CreateTokenResponse token;
    const auto context = MakeContext();
    EXPECT_TRUE(stub->CreateToken(context.get(), request, &token).ok());
    const absl::StatusOr<Credentials> joined = Join(
        {.address = address_, .token = token.token(), .name = name, .key = PrivateKey::Generate()},
        SystemClock());
    EXPECT_TRUE(joined.ok()) << joined.status();
    return *joined;
  }
  // Renews with the certificate of `member` for `key`; what it was refused with, or the new ones.
  absl::StatusOr<Credentials> Renew(const Credentials& member, const PrivateKey& key) {
    const auto stub = v1::MemberService::NewStub(Dial(member));
    v1::RenewCertificateRequest request;
    request.set_csr(MakeCsr(key));
    v1::RenewCertificateResponse response;
    const auto context = MakeContext();
    const grpc::Status status = stub->RenewCertificate(context.get(), request, &response);
    if (!status.ok()) {
      return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                          status.error_message());
    }
    Credentials renewed{key,
                        *Certificate::FromPem(response.certificate_pem()),
                        *Certificate::ParseBundle(response.ca_bundle_pem()),
                        member.identity,
                        {address_}};
    EXPECT_TRUE(CheckCredentials(renewed).ok()) << CheckCredentials(renewed);
    EXPECT_EQ(response.coordinators(0), address_);
    return renewed;
  }
  bool ShouldRenew(const Credentials& member) {
    const auto stub = v1::MemberService::NewStub(Dial(member));
    v1::CheckCertificateRequest request;
    for (const Certificate& ca : member.ca_bundle) request.add_authorities(ca.SpkiSha256());
    v1::CheckCertificateResponse response;
    const auto context = MakeContext();
    const grpc::Status status = stub->CheckCertificate(context.get(), request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.renew_now();
  }
  bool IsLetIn(const Credentials& member) {
    TestAgent agent(Dial(member), member.identity.name);
    agent.SayHello();
    return agent.Read().has_welcome();
  }
  v1::RevokeMemberResponse Revoke(const std::string& name) {
    const auto stub = v1::TrustService::NewStub(coordinator_->InProcessChannel());
    v1::RevokeMemberRequest request;
    request.set_kind(v1::MEMBER_AGENT);
    request.set_name(name);
    v1::RevokeMemberResponse response;
    const auto context = MakeContext();
    EXPECT_TRUE(stub->RevokeMember(context.get(), request, &response).ok());
    return response;
  }
  std::string AuditText() {
    std::ifstream in(folder_ + "/trust/audit.jsonl");
    return {std::istreambuf_iterator<char>(in), {}};
  }
  absl::StatusOr<Credentials> ComeBack(const Credentials& member, const PrivateKey& key) {
    return Rejoin({.address = address_, .member = member, .key = key}, SystemClock());
  }
};

TEST_F(MemberTest, ANodeRenewsWithAKeyThatItHasNotUsed) {
  const Credentials first = JoinAs("node-1");
  const PrivateKey key = PrivateKey::Generate();
  const absl::StatusOr<Credentials> second = Renew(first, key);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_NE(second->certificate.serial(), first.certificate.serial());
  EXPECT_EQ(*IdentityOf(second->certificate), first.identity);
  EXPECT_TRUE(IsLetIn(*second));
  // The answer was lost: it is the same.
  const absl::StatusOr<Credentials> again = Renew(first, key);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->certificate.Fingerprint(), second->certificate.Fingerprint());
  EXPECT_THAT(AuditText(), testing::HasSubstr("\"event\":\"renew\",\"decision\":\"allowed\""));
  EXPECT_EQ(Renew(*second, second->key).status().code(), absl::StatusCode::kPermissionDenied)
      << "a used key";
}

TEST_F(MemberTest, ACopyOfWhatANodeWasIsNotRenewed) {
  const Credentials first = JoinAs("node-1");
  ASSERT_TRUE(Renew(first, PrivateKey::Generate()).ok());
  const absl::Status refused = Renew(first, PrivateKey::Generate()).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << refused;
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("newer certificate"));
  EXPECT_THAT(AuditText(), testing::HasSubstr("SUPERSEDED"));
  EXPECT_EQ(ComeBack(first, PrivateKey::Generate()).status().code(),
            absl::StatusCode::kPermissionDenied);
}

TEST_F(MemberTest, NamesOfTheRequestDoNotMatter) {
  const Credentials first = JoinAs("node-1");
  const auto stub = v1::MemberService::NewStub(Dial(first));
  v1::RenewCertificateRequest request;
  request.set_csr("no request");
  v1::RenewCertificateResponse response;
  const auto context = MakeContext();
  EXPECT_EQ(stub->RenewCertificate(context.get(), request, &response).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  // One that the cluster's CA made, but the coordinator does not know of.
  const Credentials stranger = Made(Of(IdentityKind::kAgent, "node-1"));
  EXPECT_EQ(Renew(stranger, PrivateKey::Generate()).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(MemberTest, RevokingShutsOutAllCertificatesThatANodeHasHad) {
  const Credentials first = JoinAs("node-1");
  const absl::StatusOr<Credentials> second = Renew(first, PrivateKey::Generate());
  ASSERT_TRUE(second.ok()) << second.status();
  TestAgent on_first(Dial(first), "node-1");
  on_first.Join();
  const v1::RevokeMemberResponse revoked = Revoke("node-1");
  EXPECT_EQ(revoked.certificates(), 2u);
  EXPECT_EQ(revoked.streams(), 1u);
  EXPECT_FALSE(on_first.FinishSession().ok());
  EXPECT_FALSE(IsLetIn(first));
  EXPECT_FALSE(IsLetIn(*second));
  EXPECT_FALSE(Renew(*second, PrivateKey::Generate()).ok());
  const absl::Status back = ComeBack(*second, PrivateKey::Generate()).status();
  EXPECT_EQ(back.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(back.message()), testing::HasSubstr("was revoked"));
}

TEST_F(MemberTest, SaysWhatWouldComeOfComingBack) {
  const Credentials first = JoinAs("node-1");
  const auto check = [&](const Credentials& member, const PrivateKey& key) {
    return CheckMembership({.address = address_, .member = member, .key = key}, SystemClock())
        .status;
  };
  EXPECT_TRUE(check(first, PrivateKey::Generate()).ok());
  const absl::StatusOr<Credentials> second = ComeBack(first, PrivateKey::Generate());
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(IsLetIn(*second));
  EXPECT_EQ(check(first, PrivateKey::Generate()).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(check(*second, PrivateKey::Generate()).ok());
  Credentials foreign = *second;
  const PrivateKey other_key = PrivateKey::Generate();
  foreign.ca_bundle = {
      *MakeCa(other_key, trust_->cluster_id, now_ - kBackdate, now_ + std::chrono::hours(1))};
  const absl::Status unknown = check(foreign, PrivateKey::Generate());
  EXPECT_EQ(unknown.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(unknown.message()), testing::HasSubstr("authority"));
}

TEST_F(MemberTest, HearsOfANewAuthorityAndGetsItsCertificates) {
  Credentials node = JoinAs("node-1");
  EXPECT_FALSE(ShouldRenew(node));
  const auto authority = v1::AuthorityService::NewStub(coordinator_->InProcessChannel());
  v1::Authority answer;
  auto context = MakeContext();
  ASSERT_TRUE(authority->RotateAuthority(context.get(), {}, &answer).ok());
  EXPECT_EQ(answer.phase(), v1::Authority::TRUST_BOTH);
  ASSERT_EQ(answer.awaited_size(), 1);
  EXPECT_EQ(answer.awaited(0).name(), "node-1");
  context = MakeContext();
  EXPECT_EQ(authority->RotateAuthority(context.get(), {}, &answer).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(ShouldRenew(node));
  const absl::StatusOr<Credentials> renewed = Renew(node, PrivateKey::Generate());
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  EXPECT_EQ(renewed->ca_bundle.size(), 2u);
  // Told once it is there, not when it was handed out.
  EXPECT_FALSE(ShouldRenew(*renewed));
  context = MakeContext();
  ASSERT_TRUE(authority->GetAuthority(context.get(), {}, &answer).ok());
  EXPECT_EQ(answer.awaited_size(), 0);
}

}  // namespace
}  // namespace muster
