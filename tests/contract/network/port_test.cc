// The one network port: who goes where, what strangers can do to it, and members that are shut out.
#include <sys/resource.h>

#include <algorithm>

#include "common/crypto/join_token.h"
#include "common/io/unique_fd.h"
#include "common/trust/join_client.h"
#include "muster/v1/trust.grpc.pb.h"
#include "tests/contract/join/join_fixture.h"
#include "tests/contract/network/network_fixture.h"

namespace muster {
namespace {

class PortTest : public NetworkTest {
 protected:
  void SetUp() override {
    NetworkTest::SetUp();
    trust_service_ = v1::TrustService::NewStub(coordinator_->InProcessChannel());
  }
  v1::CreateTokenResponse Token(uint32_t uses = 1) {
    v1::CreateTokenRequest request;
    request.set_kind(v1::MEMBER_AGENT);
    request.set_uses(uses);
    v1::CreateTokenResponse response;
    const auto context = MakeContext();
    const grpc::Status status = trust_service_->CreateToken(context.get(), request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  absl::StatusOr<Credentials> JoinAs(const std::string& name, const std::string& token) {
    return Join({.address = address_, .token = token, .name = name, .key = PrivateKey::Generate()},
                SystemClock());
  }
  grpc::Status ListNodes(const std::shared_ptr<grpc::Channel>& channel) {
    v1::ListNodesResponse response;
    const auto context = MakeContext();
    return v1::NodeService::NewStub(channel)->ListNodes(context.get(), {}, &response);
  }
  v1::RevokeMemberResponse Revoke(v1::MemberKind kind, const std::string& name,
                                  bool free_name = false) {
    v1::RevokeMemberRequest request;
    request.set_kind(kind);
    request.set_name(name);
    request.set_free_name(free_name);
    v1::RevokeMemberResponse response;
    const auto context = MakeContext();
    const grpc::Status status = trust_service_->RevokeMember(context.get(), request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  std::unique_ptr<v1::TrustService::Stub> trust_service_;
};

TEST_F(PortTest, NodesJoinAndServeThroughIt) {
  const v1::CreateTokenResponse token = Token(2);
  EXPECT_EQ(token.addresses(0), address_);
  for (const std::string name : {"node-1", "node-2"}) {
    const absl::StatusOr<Credentials> credentials = JoinAs(name, token.token());
    ASSERT_TRUE(credentials.ok()) << credentials.status();
    EXPECT_EQ(credentials->coordinators[0], address_);
    agents_.push_back(std::make_unique<TestAgent>(Dial(*credentials), name));
    agents_.back()->Join();
  }
  const std::string job = Submit({"node-1"}, 1).job_id();
  const v1::AttemptKey key = agents_[0]->RunRanks(1);
  agents_[0]->OpenUpload(key, {0});
  agents_[0]->Upload(key, 0, 0, "abc");
  agents_[0]->ExitRank(key, 0);
  agents_[0]->CloseLog(key, 0, 3);
  agents_[0]->StopAttempt(key);
  EXPECT_EQ(AwaitEnd(job), v1::Job::SUCCEEDED);
}

TEST_F(PortTest, WhatIsNoTlsIsHungUpOn) {
  for (const std::string& bytes :
       {std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), std::string("GET / HTTP/1.1\r\n\r\n"),
        std::string("\0", 1), std::string("\x16\x03\x01\x00\x02xx", 7)}) {
    RawClient stranger(port());
    EXPECT_TRUE(stranger.SendRaw(bytes));
    EXPECT_EQ(stranger.ReadRaw(), "");
  }
  RawClient other(port());
  EXPECT_FALSE(other.Handshake("imap").ok()) << "nobody here speaks it";
}

TEST_F(PortTest, AFirstMessageInPiecesIsWaitedFor) {
  // The beginning of a record of 512 bytes, one byte after the other, then the peer leaves.
  RawClient slow(port());
  for (const char byte : std::string("\x16\x03\x01\x02\x00\x01\x00", 7)) {
    EXPECT_TRUE(slow.SendRaw(std::string(1, byte)));
  }
  slow.Close();
  EXPECT_TRUE(ListNodes(Dial(Made(Of(IdentityKind::kUser, "alice")))).ok());
}

TEST_F(PortTest, WhoSendsUrgentBytesIsHungUpOn) {
  // A first message, whole but for what TLS 1.3 needs, that offers to join.
  const std::string protocol(kJoinAlpn);
  const auto sized = [](const std::string& bytes) {
    return std::string{'\0', static_cast<char>(bytes.size())} + bytes;
  };
  const std::string list = sized(static_cast<char>(protocol.size()) + protocol);
  const std::string extensions = sized(std::string("\0\x10", 2) + sized(list));
  const std::string body = std::string("\x03\x03", 2) + std::string(32, 'r') +
                           std::string("\0\0\x02\x13\x01\x01\0", 7) + extensions;
  const std::string hello =
      std::string("\x16\x03\x01", 3) + sized(std::string("\x01\0", 2) + sized(body));
  RawClient plain(port());
  EXPECT_TRUE(plain.SendRaw(hello));
  EXPECT_NE(plain.ReadRaw(), "") << "it was understood, and an alert is the answer";
  RawClient urgent(port());
  EXPECT_TRUE(urgent.SendUrgent('!'));
  (void)urgent.SendRaw(hello);
  EXPECT_EQ(urgent.ReadRaw(), "");
}

TEST_F(PortTest, StrangersLeaveFilesToTheCoordinator) {
  for (const size_t files : {64, 256, 1024, 4096, 1 << 20}) {
    const auto limits = NetworkListener::Limits::ForFiles(files);
    EXPECT_LE(limits.in_all + limits.undecided, files * 5 / 8);
    EXPECT_LE(limits.per_address, limits.in_all);
    EXPECT_GT(limits.undecided, 0u);
  }
  EXPECT_EQ(NetworkListener::Limits::ForFiles(1 << 20).in_all, NetworkListener::Limits().in_all);
}

TEST_F(PortTest, IdleConnectionsHurtNobody) {
  // More than may be undecided at a time, as far as this process may open files.
  rlimit limit;
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  const size_t count = std::min<size_t>(1500, limit.rlim_max / 3);
  std::vector<std::unique_ptr<RawClient>> idle;
  while (idle.size() < count) idle.push_back(std::make_unique<RawClient>(port()));
  EXPECT_TRUE(ListNodes(Dial(Made(Of(IdentityKind::kUser, "alice")))).ok());
  EXPECT_TRUE(JoinAs("node-1", Token().token()).ok());
  // They are hung up on after a while.
  EXPECT_EQ(idle.front()->ReadRaw(), "");
  EXPECT_EQ(idle.back()->ReadRaw(), "");
}

TEST_F(PortTest, IsNotSharedWithAnotherCoordinator) {
  const auto second = NetworkListener::Listen(address_, {});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition) << second.status();
  EXPECT_THAT(std::string(second.status().message()), testing::HasSubstr("another coordinator"));
}

TEST_F(PortTest, ARevokedMemberIsCutOffAtOnce) {
  const absl::StatusOr<Credentials> credentials = JoinAs("node-1", Token().token());
  ASSERT_TRUE(credentials.ok()) << credentials.status();
  const std::shared_ptr<grpc::Channel> channel = Dial(*credentials);
  TestAgent agent(channel, "node-1");
  agent.Join();
  const v1::RevokeMemberResponse revoked = Revoke(v1::MEMBER_AGENT, "node-1");
  EXPECT_EQ(revoked.certificates(), 1u);
  EXPECT_EQ(revoked.streams(), 1u);
  EXPECT_FALSE(agent.FinishSession().ok()) << "the stream ends";
  // Neither on the connection that is still there, nor on a new one.
  for (const std::shared_ptr<grpc::Channel>& way : {channel, Dial(*credentials)}) {
    TestAgent again(way, "node-1");
    again.SayHello();
    EXPECT_FALSE(again.FinishSession().ok());
  }
  EXPECT_FALSE(JoinAs("node-1", Token().token()).ok()) << "the name stays taken";
  Revoke(v1::MEMBER_AGENT, "node-1", /*free_name=*/true);
  EXPECT_TRUE(JoinAs("node-1", Token().token()).ok());
}

TEST_F(PortTest, WhoWasRevokedStaysSoAfterARestart) {
  const absl::StatusOr<Credentials> credentials = JoinAs("node-1", Token().token());
  ASSERT_TRUE(credentials.ok()) << credentials.status();
  Revoke(v1::MEMBER_AGENT, "node-1");
  trust_service_.reset();
  jobs_.reset();
  nodes_.reset();
  coordinator_.reset();
  StartCoordinator();
  TestAgent agent(Dial(*credentials), "node-1");
  agent.SayHello();
  EXPECT_EQ(agent.FinishSession().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST(NetworkStart, RenewsACertificateThatIsOver) {
  const TempFolder folder;
  const std::string directory = folder.File("trust");
  const WallTime made_at = SystemClock().WallNow() - kCertificateLife - std::chrono::hours(24);
  ASSERT_TRUE(InitTrust(directory, {.hosts = {"127.0.0.1"}}, made_at).ok());
  const auto network = Network::Open({.trust_directory = directory, .listen = "127.0.0.1:0"});
  EXPECT_TRUE(network.ok()) << network.status();
}

}  // namespace
}  // namespace muster
