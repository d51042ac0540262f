// Who may call what over the network: every method with every role and every bad certificate.
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include "tests/contract/network/network_fixture.h"
#include "tests/contract/rpc/any_call.h"

namespace muster {
namespace {

using std::chrono::hours;

class RolesTest : public NetworkTest {
 protected:
  // Every method fails before any byte of gRPC was answered.
  void ExpectNothing(const std::shared_ptr<grpc::Channel>& channel, const std::string& who) {
    for (const std::string& method : AllMethods()) {
      EXPECT_EQ(CallAny(channel, method).error_code(), grpc::StatusCode::UNAVAILABLE)
          << who << " " << method;
    }
  }
};

TEST_F(RolesTest, EachRoleMayCallItsMethodsAndNoOthers) {
  const std::pair<Identity, Role> members[] = {
      {Of(IdentityKind::kAgent, "node-1"), Role::kAgent},
      {Of(IdentityKind::kUser, "alice"), Role::kSubmitter},
      {Of(IdentityKind::kAdmin, "root"), Role::kAdmin},
  };
  for (const auto& [identity, role] : members) {
    const auto channel = Dial(Made(identity));
    for (const std::string& method : AllMethods()) {
      const grpc::Status status = CallAny(channel, method);
      EXPECT_NE(status.error_code(), grpc::StatusCode::UNAVAILABLE)
          << ToUri(identity) << " " << method << " " << status.error_message();
      EXPECT_EQ(status.error_code() == grpc::StatusCode::PERMISSION_DENIED,
                !IsAllowed(method, role))
          << ToUri(identity) << " " << method << " " << status.error_message();
    }
  }
}

TEST_F(RolesTest, StrangersReachNothing) {
  ExpectNothing(grpc::CreateChannel(address_, grpc::InsecureChannelCredentials()), "without TLS");
  grpc::SslCredentialsOptions anonymous;
  anonymous.pem_root_certs = ToPem(trust_->ca_bundle);
  grpc::ChannelArguments arguments;
  ExpectNothing(grpc::CreateCustomChannel(address_, grpc::SslCredentials(anonymous), arguments),
                "without a certificate");
  const PrivateKey other_key = PrivateKey::Generate();
  const absl::StatusOr<Certificate> other =
      MakeCa(other_key, trust_->cluster_id, now_ - hours(1), now_ + hours(1));
  ASSERT_TRUE(other.ok()) << other.status();
  ExpectNothing(Dial(MadeBy(*other, other_key, Of(IdentityKind::kAdmin, "root"))),
                "of another authority");
}

TEST_F(RolesTest, BadCertificatesOfTheClusterReachNothing) {
  ExpectNothing(Dial(Made(Of(IdentityKind::kAdmin, "root"), -hours(3), -hours(2))), "expired");
  ExpectNothing(Dial(Made(Of(IdentityKind::kAdmin, "root"), hours(2), hours(3))), "not yet valid");
  ExpectNothing(Dial(Made({NewClusterId(), IdentityKind::kAdmin, "root"})), "of another cluster");
  ExpectNothing(Dial(Made(Of(IdentityKind::kCoordinator, ""))), "as a coordinator");
}

TEST_F(RolesTest, AMemberTalksToCoordinatorsOfItsClusterOnly) {
  Credentials credentials = Made(Of(IdentityKind::kAdmin, "root"));
  credentials.identity.cluster_id = NewClusterId();
  ExpectNothing(Dial(credentials), "looking for another cluster");
}

TEST_F(RolesTest, AnAgentSpeaksForItsOwnNodeOnly) {
  const Credentials credentials = Made(Of(IdentityKind::kAgent, "node-1"));
  TestAgent agent(Dial(credentials), "node-1");
  agent.Join();
  TestAgent liar(Dial(credentials), "node-2");
  EXPECT_TRUE(liar.SayHello());
  EXPECT_EQ(liar.FinishSession().error_code(), grpc::StatusCode::PERMISSION_DENIED);
}

}  // namespace
}  // namespace muster
