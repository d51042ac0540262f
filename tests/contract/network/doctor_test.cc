// What the way of a member to its coordinator looks like to `agent doctor`, for every way to fail.
#include <algorithm>

#include "common/doctor/coordinator_probe.h"
#include "common/trust/join_client.h"
#include "muster/v1/trust.grpc.pb.h"
#include "tests/contract/network/network_fixture.h"

namespace muster {
namespace {

using std::chrono::hours;
using ::testing::HasSubstr;

class DoctorTest : public NetworkTest {
 protected:
  Credentials JoinAs(const std::string& name) {
    const auto stub = v1::TrustService::NewStub(coordinator_->InProcessChannel());
    v1::CreateTokenRequest request;
    request.set_kind(v1::MEMBER_AGENT);
    v1::CreateTokenResponse token;
    const auto context = MakeContext();
    EXPECT_TRUE(stub->CreateToken(context.get(), request, &token).ok());
    return *Join(
        {.address = address_, .token = token.token(), .name = name, .key = PrivateKey::Generate()},
        SystemClock());
  }
  Findings Probe(const Credentials& member, const std::string& address = "") {
    return ProbeCoordinator(member, address.empty() ? address_ : address, "test", SystemClock());
  }
  // The one check that fails is `check`, with `part` in its text.
  static void ExpectFails(const Findings& findings, const std::string& check,
                          const std::string& part) {
    const auto found = std::find_if(findings.begin(), findings.end(), [&](const Finding& finding) {
      return finding.verdict == Verdict::kFail && finding.check == check;
    });
    ASSERT_NE(found, findings.end()) << RenderFindings(findings);
    EXPECT_THAT(found->text, HasSubstr(part));
  }
};

TEST_F(DoctorTest, FindsNothingWrongWithAMember) {
  const Findings findings = Probe(JoinAs("node-1"));
  EXPECT_TRUE(AllWork(findings)) << RenderFindings(findings);
  std::vector<std::string> checks;
  for (const Finding& finding : findings) checks.push_back(finding.check);
  EXPECT_THAT(checks,
              testing::ElementsAre("name", "connect", "tls", "clock", "membership", "grpc"));
}

TEST_F(DoctorTest, SaysThatAMemberWasRevoked) {
  const Credentials node = JoinAs("node-1");
  const auto stub = v1::TrustService::NewStub(coordinator_->InProcessChannel());
  v1::RevokeMemberRequest request;
  request.set_kind(v1::MEMBER_AGENT);
  request.set_name("node-1");
  v1::RevokeMemberResponse response;
  const auto context = MakeContext();
  ASSERT_TRUE(stub->RevokeMember(context.get(), request, &response).ok());
  const Findings findings = Probe(node);
  ExpectFails(findings, "membership", "was revoked");
  ExpectFails(findings, "grpc", "refuses this certificate");
}

TEST_F(DoctorTest, SaysThatAnOldStateWasCopied) {
  const Credentials node = JoinAs("node-1");
  ASSERT_TRUE(
      Rejoin({.address = address_, .member = node, .key = PrivateKey::Generate()}, SystemClock())
          .ok());
  ExpectFails(Probe(node), "membership", "newer certificate");
}

TEST_F(DoctorTest, SaysThatTheCertificateIsNotKnownOrOfTheWrongRole) {
  ExpectFails(Probe(Made(Of(IdentityKind::kAgent, "node-1"))), "membership", "does not know");
  ExpectFails(Probe(Made(Of(IdentityKind::kCoordinator, ""))), "grpc", "refuses");
}

TEST_F(DoctorTest, SaysThatTheCertificateIsNotValidNow) {
  // Signed by the authority of the cluster; refused for their dates alone.
  ExpectFails(Probe(Made(Of(IdentityKind::kAgent, "node-1"), hours(2), hours(3))), "grpc",
              "refuses");
  const Findings ended = Probe(Made(Of(IdentityKind::kAgent, "node-1"), -hours(3), -hours(2)));
  EXPECT_FALSE(AllWork(ended));
  EXPECT_THAT(RenderFindings(ended), HasSubstr("has ended"));
}

TEST_F(DoctorTest, SaysThatTheCoordinatorIsOfAnotherAuthorityOrCluster) {
  Credentials node = Made(Of(IdentityKind::kAgent, "node-1"));
  const PrivateKey key = PrivateKey::Generate();
  const Certificate other = *MakeCa(key, trust_->cluster_id, now_ - hours(1), now_ + hours(1));
  Credentials foreign = MadeBy(other, key, Of(IdentityKind::kAgent, "node-1"));
  foreign.ca_bundle = {other};
  ExpectFails(Probe(foreign), "tls", "not signed by the CA");
  node.identity.cluster_id = NewClusterId();
  ExpectFails(Probe(node), "tls", "of cluster");
}

TEST_F(DoctorTest, SaysHowFarItComes) {
  const Credentials node = Made(Of(IdentityKind::kAgent, "node-1"));
  ExpectFails(Probe(node, "no-such-host.invalid:7443"), "name", "is not found");
  ExpectFails(Probe(node, "no address"), "name", "is no address");
  uint16_t closed = 0;
  {
    const auto listener = NetworkListener::Listen("127.0.0.1:0", {});
    ASSERT_TRUE(listener.ok());
    closed = static_cast<uint16_t>((*listener)->port());
  }
  ExpectFails(Probe(node, fmt::format("127.0.0.1:{}", closed)), "connect", "cannot connect");
}

}  // namespace
}  // namespace muster
