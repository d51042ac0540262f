// Joining over the loopback interface, and every reason for which it is refused.
#include <thread>

#include "common/base/utc.h"
#include "common/crypto/join_token.h"
#include "common/crypto/verify.h"
#include "tests/contract/join/join_fixture.h"

namespace muster {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
constexpr auto kDenied = absl::StatusCode::kPermissionDenied;

TEST_F(JoinTest, MakesAMember) {
  const std::string token = Token();
  const JoinOptions options = Options(token);
  const absl::StatusOr<Credentials> joined = TryJoin(options);
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(joined->identity, (Identity{trust_->cluster_id, IdentityKind::kAgent, "node-1"}));
  EXPECT_TRUE(joined->certificate.Holds(options.key));
  EXPECT_THAT(joined->coordinators, ElementsAre("head:7443", "[2001:db8::1]:7443"));
  EXPECT_TRUE(
      VerifyCertificate(joined->certificate, trust_->ca_bundle, CertificateUse::kClient, now_)
          .ok());
  EXPECT_EQ(VerifyCertificate(joined->certificate, trust_->ca_bundle, CertificateUse::kServer, now_)
                .code(),
            kDenied);
  EXPECT_EQ(joined->certificate.not_before(), now_ - hours(1));
  EXPECT_EQ(joined->certificate.not_after(), now_ + kCertificateLife);
  const auto member = store_->FindMember(IdentityKind::kAgent, "node-1");
  ASSERT_TRUE(member.ok() && *member);
  EXPECT_EQ((*member)->serial, joined->certificate.serial());
  EXPECT_EQ((*member)->spki_sha256, options.key.SpkiSha256());
  EXPECT_EQ((*member)->machine_id, "machine");
  EXPECT_EQ((*member)->boot_id, "boot");
  EXPECT_EQ(UsesLeft(token), 0);
  EXPECT_THAT(AuditText(), HasSubstr(joined->certificate.serial()));
  EXPECT_THAT(AuditText(), HasSubstr("127.0.0.1"));
  EXPECT_TRUE(VerifyAudit(folder_.File("audit.jsonl")).ok());
}

TEST_F(JoinTest, WhatAMemberGotCanBeInstalled) {
  const CredentialsDirectory directory(folder_.File("member"));
  JoinOptions options = Options(Token());
  options.key = *directory.PendingKey();
  const absl::StatusOr<Credentials> joined = TryJoin(options);
  ASSERT_TRUE(joined.ok()) << joined.status();
  ASSERT_TRUE(directory.Install(*joined).ok());
  const absl::StatusOr<Credentials> loaded = directory.Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->certificate.Fingerprint(), joined->certificate.Fingerprint());
}

TEST_F(JoinTest, MakesAUser) {
  const std::string token = Token({.role = IdentityKind::kUser, .bound_name = "alice"});
  ExpectRefused(Options(token, ""), kDenied, "makes a member of kind user");
  EXPECT_EQ(UsesLeft(token), 1);
  JoinOptions options = Options(token, "");
  options.kind = IdentityKind::kUser;
  const absl::StatusOr<Credentials> joined = TryJoin(options);
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(joined->identity, (Identity{trust_->cluster_id, IdentityKind::kUser, "alice"}));
}

TEST_F(JoinTest, AskedAgainGivesTheSameCertificate) {
  const std::string token = Token();
  const JoinOptions options = Options(token);
  const absl::StatusOr<Credentials> first = TryJoin(options);
  ASSERT_TRUE(first.ok()) << first.status();
  server_clock_.Set(now_ + minutes(10));
  const absl::StatusOr<Credentials> second = TryJoin(options);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(first->certificate.Fingerprint(), second->certificate.Fingerprint());
  EXPECT_THAT(AuditText(), HasSubstr("asked again"));
  server_clock_.Set(now_ + minutes(11));
  ExpectRefused(options, kDenied, "spent");
}

TEST_F(JoinTest, ManyJoinAtOnceWithOneToken) {
  constexpr int kNodes = 12;
  const std::string token = Token({.uses = kNodes});
  std::vector<std::thread> nodes;
  std::atomic<int> joined = 0;
  for (int i = 0; i < kNodes + 3; ++i) {
    nodes.emplace_back([&, i] {
      if (TryJoin(Options(token, fmt::format("node-{}", i))).ok()) ++joined;
    });
  }
  for (std::thread& node : nodes) node.join();
  EXPECT_EQ(joined, kNodes);
  EXPECT_EQ(UsesLeft(token), 0);
  EXPECT_TRUE(VerifyAudit(folder_.File("audit.jsonl")).ok());
}

TEST_F(JoinTest, RefusesAWrongSecret) {
  const std::string token = Token();
  JoinToken wrong = *ParseToken(token);
  wrong.secret[3] = static_cast<char>(wrong.secret[3] ^ 1);
  ExpectRefused(Options(FormatToken(wrong)), kDenied, "does not know this token");
  EXPECT_EQ(UsesLeft(token), 1);
  EXPECT_THAT(AuditText(), HasSubstr("UNKNOWN_TOKEN"));
}

TEST_F(JoinTest, RefusesARemovedToken) {
  const std::string token = Token();
  ASSERT_TRUE(store_->RemoveToken(ParseToken(token)->id).ok());
  ExpectRefused(Options(token), kDenied, "does not know this token");
}

TEST_F(JoinTest, RefusesAnEndedToken) {
  const std::string token = Token();
  server_clock_.Set(now_ + hours(1));
  ExpectRefused(Options(token), kDenied, "the token ended at " + FormatUtc(now_ + hours(1)));
}

TEST_F(JoinTest, RefusesASpentToken) {
  const std::string token = Token();
  ASSERT_TRUE(TryJoin(Options(token)).ok());
  ExpectRefused(Options(token, "node-2"), kDenied, "spent");
}

TEST_F(JoinTest, RefusesATakenName) {
  const std::string token = Token({.uses = 3});
  ASSERT_TRUE(TryJoin(Options(token)).ok());
  ExpectRefused(Options(token), kDenied, "another agent 'node-1'");
  EXPECT_EQ(UsesLeft(token), 2);
  ASSERT_TRUE(store_->RemoveMember(IdentityKind::kAgent, "node-1").ok());
  EXPECT_TRUE(TryJoin(Options(token)).ok());
}

TEST_F(JoinTest, AUserMayHaveSeveralMachinesAndIsRevokedOnAllOfThem) {
  const auto join = [&] {
    JoinOptions options = Options(Token({.role = IdentityKind::kUser, .bound_name = "alice"}), "");
    options.kind = IdentityKind::kUser;
    return TryJoin(options);
  };
  std::vector<std::string> serials;
  for (int machine = 0; machine < 2; ++machine) {
    const absl::StatusOr<Credentials> joined = join();
    ASSERT_TRUE(joined.ok()) << joined.status();
    serials.push_back(joined->certificate.serial());
  }
  EXPECT_NE(serials[0], serials[1]);
  const auto revoked = store_->Revoke(IdentityKind::kUser, "alice");
  ASSERT_TRUE(revoked.ok()) << revoked.status();
  EXPECT_THAT(*revoked, testing::UnorderedElementsAreArray(serials));
  EXPECT_THAT(std::string(MessageOf(join().status())), testing::HasSubstr("was revoked"));
}

TEST_F(JoinTest, RefusesARevokedMember) {
  const std::string token = Token({.uses = 3});
  const JoinOptions options = Options(token);
  ASSERT_TRUE(TryJoin(options).ok());
  ASSERT_TRUE(store_->Revoke(IdentityKind::kAgent, "node-1").ok());
  ExpectRefused(options, kDenied, "was revoked");
  ExpectRefused(Options(token), kDenied, "was revoked");
}

TEST_F(JoinTest, RefusesAnotherNameThanTheTokens) {
  const std::string token = Token({.bound_name = "node-2"});
  ExpectRefused(Options(token), kDenied, "for the agent 'node-2', not for 'node-1'");
  EXPECT_TRUE(TryJoin(Options(token, "node-2")).ok());
}

TEST_F(JoinTest, RefusesAnotherNetworkThanTheTokens) {
  ExpectRefused(Options(Token({.bound_network = "10.0.0.0/8"})), kDenied,
                "good from 10.0.0.0/8, and this connection comes from 127.0.0.1");
  EXPECT_TRUE(TryJoin(Options(Token({.bound_network = "127.0.0.0/8"}))).ok());
}

TEST_F(JoinTest, RefusesANameThatIsNone) {
  ExpectRefused(Options(Token(), "../../etc"), kDenied, "the name is not valid");
  ExpectRefused(Options(Token(), ""), kDenied, "a name must be given");
}

TEST_F(JoinTest, TellsBothClocksWhenTheyDiffer) {
  // Behind by so much that the coordinator's certificate is not valid yet.
  clock_.Set(now_ - hours(2));
  ExpectRefused(Options(Token()), absl::StatusCode::kFailedPrecondition,
                FormatUtc(now_ - hours(2)));
  // Right for that, but not for the new certificate.
  clock_.Set(now_);
  server_clock_.Set(now_ + minutes(90));
  const JoinOptions options = Options(Token({.life = hours(5)}));
  ExpectRefused(options, absl::StatusCode::kFailedPrecondition, FormatUtc(now_ + minutes(90)));
  // Once the clock is set the same request is answered.
  clock_.Set(now_ + minutes(90));
  EXPECT_TRUE(TryJoin(options).ok());
}

TEST_F(JoinTest, MakesNoMemberThatTheAuditLogDoesNotKnow) {
  const auto full = AuditLog::Open("/dev/full");
  ASSERT_TRUE(full.ok()) << full.status();
  JoinService unaudited(*live_, *store_, **full, server_clock_, {});
  absl::StatusOr<UniqueFd> listener = ListenTcp("127.0.0.1", 0);
  ASSERT_TRUE(listener.ok());
  const auto server = JoinServer::Start(*std::move(listener), *live_, unaudited);
  ASSERT_TRUE(server.ok()) << server.status();
  const JoinOptions good = Options(Token());
  JoinOptions options = good;
  options.address = fmt::format("127.0.0.1:{}", (*server)->port());
  ExpectRefused(options, absl::StatusCode::kUnavailable, "cannot do it at the moment");
  // With space again the same key gets its certificate, for the same use.
  EXPECT_TRUE(TryJoin(good).ok());
}

TEST_F(JoinTest, SaysThatNobodyListens) {
  JoinOptions options = Options(Token());
  server_.reset();
  ExpectRefused(options, absl::StatusCode::kUnavailable,
                fmt::format("cannot connect to {}: Connection refused", options.address));
}

TEST_F(JoinTest, SaysThatAnAddressIsNone) {
  JoinOptions options = Options(Token());
  for (const char* address :
       {"", "head", "head:", ":7443", "head:x", "head:99999", "::1", "a:b:1"}) {
    options.address = address;
    ExpectRefused(options, absl::StatusCode::kInvalidArgument, "expected host:port");
  }
}

TEST_F(JoinTest, SaysThatATokenIsNoneBeforeItConnects) {
  ExpectRefused(Options("tk1.x"), absl::StatusCode::kInvalidArgument, "4 parts");
  EXPECT_EQ(server_->accepted(), 0u);
}

TEST_F(JoinTest, NeverTellsSecrets) {
  const std::string token = Token();
  const std::string secret = token.substr(13, 32);
  const absl::StatusOr<Credentials> joined = TryJoin(Options(token));
  ASSERT_TRUE(joined.ok()) << joined.status();
  ExpectRefused(Options(token), kDenied, "");
  EXPECT_THAT(AuditText(), Not(HasSubstr(secret)));
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path())) {
    if (!entry.is_regular_file()) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    EXPECT_EQ(bytes.find(secret), std::string::npos) << entry.path();
    EXPECT_EQ(bytes.find(ParseToken(token)->secret), std::string::npos) << entry.path();
  }
}

}  // namespace
}  // namespace muster
