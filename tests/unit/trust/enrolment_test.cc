#include "coordinator/trust/enrolment.h"

#include <gmock/gmock.h>

#include <map>

#include "common/base/annotate.h"
#include "common/base/utc.h"
#include "common/crypto/csr.h"
#include "common/crypto/digest.h"
#include "common/crypto/join_frame.h"
#include "common/crypto/join_token.h"
#include "coordinator/trust/token.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using v1::JoinRefused;

const WallTime kNow{std::chrono::seconds(1'800'000'000)};
const std::string kExporter(32, 'e');

class FakeRecords final : public EnrolmentRecords {
 public:
  absl::StatusOr<std::optional<StoredToken>> FindToken(std::string_view id) override {
    if (!broken.ok()) return broken;
    const auto found = tokens.find(std::string(id));
    if (found == tokens.end()) return std::nullopt;
    return found->second;
  }
  absl::StatusOr<std::optional<Member>> FindMember(IdentityKind kind,
                                                   std::string_view name) override {
    const auto found = members.find({kind, std::string(name)});
    if (found == members.end()) return std::nullopt;
    return found->second;
  }
  absl::StatusOr<std::optional<IssuedCertificate>> FindCertificate(
      std::string_view serial) override {
    const auto found = certificates.find(std::string(serial));
    if (found == certificates.end()) return std::nullopt;
    return found->second;
  }

  absl::Status broken;
  std::map<std::string, StoredToken> tokens;
  std::map<std::pair<IdentityKind, std::string>, Member> members;
  std::map<std::string, IssuedCertificate> certificates;
};

class Enrolment : public testing::Test {
 protected:
  // A token, and a good request with it as node-1.
  void Give(const TokenWish& wish) {
    const absl::StatusOr<NewToken> made = CreateToken(wish, Sha256("ca"), kNow);
    ASSERT_TRUE(made.ok()) << made.status();
    records_.tokens[made->stored.id] = made->stored;
    token_ = *ParseToken(made->text);
    request_.set_protocol(kJoinProtocol);
    request_.set_token_id(token_.id);
    request_.set_csr(MakeCsr(key_));
    request_.set_name("node-1");
    Prove();
  }
  void Prove() { request_.set_proof(JoinProof(TokenKey(token_), kExporter, request_.csr())); }
  StoredToken& stored() { return records_.tokens[token_.id]; }

  // As if the request had been admitted at kNow.
  void Admitted() {
    --stored().uses_left;
    const Member member{.kind = IdentityKind::kAgent,
                        .name = "node-1",
                        .spki_sha256 = key_.SpkiSha256(),
                        .serial = "5e",
                        .not_after = kNow + std::chrono::hours(24),
                        .joined_at = kNow,
                        .token_id = token_.id};
    records_.members[{member.kind, member.name}] = member;
    records_.certificates["5e"] = {.serial = "5e",
                                   .kind = member.kind,
                                   .name = member.name,
                                   .spki_sha256 = member.spki_sha256,
                                   .issued_at = kNow,
                                   .not_after = member.not_after,
                                   .der = "der"};
  }
  Member& member() { return records_.members[{IdentityKind::kAgent, "node-1"}]; }

  JoinDecision Decide(WallTime now = kNow, const std::string& address = "10.0.0.1") {
    auto decision = DecideEnrolment(request_, address, now, kExporter, records_);
    EXPECT_TRUE(decision.ok()) << decision.status();
    return decision.ok() ? *decision : JoinRefusal{};
  }
  void ExpectRefused(const JoinDecision& decision, JoinRefused::Cause cause,
                     const std::string& part) {
    const auto* refusal = std::get_if<JoinRefusal>(&decision);
    ASSERT_NE(refusal, nullptr);
    EXPECT_EQ(refusal->cause, cause) << refusal->message;
    EXPECT_THAT(refusal->message, HasSubstr(part));
  }

  FakeRecords records_;
  PrivateKey key_ = PrivateKey::Generate();
  JoinToken token_;
  v1::JoinRequest request_;
};

TEST_F(Enrolment, AdmitsAGoodRequest) {
  Give({});
  const JoinDecision decision = Decide();
  const auto* admission = std::get_if<JoinAdmission>(&decision);
  ASSERT_NE(admission, nullptr) << std::get<JoinRefusal>(decision).message;
  EXPECT_EQ(admission->kind, IdentityKind::kAgent);
  EXPECT_EQ(admission->name, "node-1");
  EXPECT_EQ(admission->key.SpkiSha256(), key_.SpkiSha256());
  EXPECT_EQ(admission->token_id, token_.id);
}

TEST_F(Enrolment, GivesTheRoleAndNameOfTheToken) {
  Give({.role = IdentityKind::kUser, .bound_name = "alice"});
  request_.clear_name();
  const JoinDecision decision = Decide();
  const auto* admission = std::get_if<JoinAdmission>(&decision);
  ASSERT_NE(admission, nullptr) << std::get<JoinRefusal>(decision).message;
  EXPECT_EQ(admission->kind, IdentityKind::kUser);
  EXPECT_EQ(admission->name, "alice");
}

TEST_F(Enrolment, RefusesAnOldProtocolFirst) {
  Give({});
  request_.set_protocol(0);
  request_.set_token_id("nothing");
  ExpectRefused(Decide(), JoinRefused::VERSION, "version 0");
}

TEST_F(Enrolment, TellsStrangersOnlyThatTokenAndProofDoNotFit) {
  Give({});
  const std::string known = token_.id;
  const JoinDecision wrong_proof = [&] {
    request_.set_proof(std::string(32, 'x'));
    return Decide();
  }();
  request_.set_token_id("aaaaaaaa");
  const JoinDecision unknown = Decide();
  ExpectRefused(wrong_proof, JoinRefused::UNKNOWN_TOKEN, "does not know this token");
  ExpectRefused(unknown, JoinRefused::UNKNOWN_TOKEN, "does not know this token");
  EXPECT_EQ(std::get<JoinRefusal>(wrong_proof).message, std::get<JoinRefusal>(unknown).message);
  // Even when it is over, spent or bound.
  request_.set_token_id(known);
  stored().uses_left = 0;
  stored().expires_at = kNow;
  stored().bound_network = "192.0.2.0/24";
  ExpectRefused(Decide(), JoinRefused::UNKNOWN_TOKEN, "does not know this token");
}

TEST_F(Enrolment, ProofOfAnUnknownTokenWithTheKeyOfZerosIsNone) {
  Give({});
  request_.set_token_id("aaaaaaaa");
  request_.set_proof(JoinProof(std::string(kSha256Bytes, '\0'), kExporter, request_.csr()));
  ExpectRefused(Decide(), JoinRefused::UNKNOWN_TOKEN, "");
}

TEST_F(Enrolment, ProofIsGoodForItsConnectionAndItsKeyOnly) {
  Give({});
  request_.set_proof(JoinProof(TokenKey(token_), std::string(32, 'f'), request_.csr()));
  ExpectRefused(Decide(), JoinRefused::UNKNOWN_TOKEN, "");
  Prove();
  request_.set_csr(MakeCsr(PrivateKey::Generate()));
  ExpectRefused(Decide(), JoinRefused::UNKNOWN_TOKEN, "");
}

TEST_F(Enrolment, RefusesAKeyThatIsNotProven) {
  Give({});
  std::string csr = request_.csr();
  csr.back() = static_cast<char>(csr.back() ^ 1);
  request_.set_csr(csr);
  Prove();
  ExpectRefused(Decide(), JoinRefused::BAD_REQUEST, "certificate request");
}

TEST_F(Enrolment, RefusesAnEndedToken) {
  Give({});
  const WallTime end = kNow + std::chrono::hours(1);
  EXPECT_TRUE(std::holds_alternative<JoinAdmission>(Decide(end - std::chrono::seconds(1))));
  ExpectRefused(Decide(end), JoinRefused::EXPIRED, FormatUtc(end));
}

TEST_F(Enrolment, RefusesASpentToken) {
  Give({});
  stored().uses_left = 0;
  ExpectRefused(Decide(), JoinRefused::USED_UP, "spent");
}

TEST_F(Enrolment, RefusesAnotherNameThanTheTokens) {
  Give({.bound_name = "node-2"});
  ExpectRefused(Decide(), JoinRefused::WRONG_NAME, "'node-2', not for 'node-1'");
}

TEST_F(Enrolment, RefusesAnotherRoleThanTheTokens) {
  Give({});
  request_.set_role(v1::JoinRequest::AGENT);
  EXPECT_TRUE(std::holds_alternative<JoinAdmission>(Decide()));
  request_.set_role(v1::JoinRequest::USER);
  ExpectRefused(Decide(), JoinRefused::WRONG_ROLE, "a member of kind agent");
}

TEST_F(Enrolment, RefusesAnotherAddressThanTheTokens) {
  Give({.bound_network = "10.0.0.0/8"});
  EXPECT_TRUE(std::holds_alternative<JoinAdmission>(Decide(kNow, "::ffff:10.2.3.4")));
  ExpectRefused(Decide(kNow, "192.0.2.1"), JoinRefused::WRONG_ADDRESS, "comes from 192.0.2.1");
  ExpectRefused(Decide(kNow, "unknown"), JoinRefused::WRONG_ADDRESS, "10.0.0.0/8");
}

TEST_F(Enrolment, RefusesNamesThatAreNone) {
  Give({});
  for (const char* name : {"", "../x", "A", "a.b", "-a", "a\nb"}) {
    request_.set_name(name);
    ExpectRefused(Decide(), JoinRefused::BAD_REQUEST, "name");
  }
}

TEST_F(Enrolment, RefusesANameOfAnotherKey) {
  Give({.uses = 5});
  Admitted();
  request_.set_csr(MakeCsr(PrivateKey::Generate()));
  Prove();
  ExpectRefused(Decide(), JoinRefused::NAME_TAKEN, "another agent 'node-1'");
}

TEST_F(Enrolment, RefusesARevokedMember) {
  Give({.uses = 5});
  Admitted();
  member().revoked = true;
  ExpectRefused(Decide(), JoinRefused::REVOKED, "was revoked");
}

TEST_F(Enrolment, RepeatsTheAnswerForTenMinutes) {
  Give({});
  Admitted();
  const JoinDecision decision = Decide(kNow + kJoinAgain);
  const auto* repetition = std::get_if<JoinRepetition>(&decision);
  ASSERT_NE(repetition, nullptr) << std::get<JoinRefusal>(decision).message;
  EXPECT_EQ(repetition->certificate.serial, "5e");
  ExpectRefused(Decide(kNow + kJoinAgain + std::chrono::seconds(1)), JoinRefused::USED_UP, "");
}

TEST_F(Enrolment, RepeatsNothingOfAnotherToken) {
  Give({});
  Admitted();
  Give({});
  EXPECT_TRUE(std::holds_alternative<JoinAdmission>(Decide()));
}

TEST_F(Enrolment, RepeatsNoRevokedCertificate) {
  Give({});
  Admitted();
  records_.certificates["5e"].revoked = true;
  ExpectRefused(Decide(), JoinRefused::USED_UP, "");
}

TEST_F(Enrolment, PassesErrorsOfTheRecordsOn) {
  Give({});
  records_.broken = absl::UnavailableError("disk");
  EXPECT_EQ(DecideEnrolment(request_, "10.0.0.1", kNow, kExporter, records_).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST(DecodeJoinRequest, ReadsARequest) {
  v1::JoinRequest request;
  request.set_name("node-1");
  const auto decoded = DecodeJoinRequest(request.SerializeAsString());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->name(), "node-1");
}

TEST(DecodeJoinRequest, RefusesWhatIsNone) {
  v1::JoinRequest long_name;
  long_name.set_name(std::string(kMaxJoinTextBytes + 1, 'a'));
  v1::JoinRequest long_csr;
  long_csr.set_csr(std::string(kMaxCsrBytes + 1, 'a'));
  // A name that is not UTF-8; groups inside each other in a field that nobody knows.
  const std::string not_utf8("\x2a\x01\xff", 3);
  const std::string deep(100, '\xa3');
  for (const std::string& bytes :
       {std::string(), std::string("GET / HTTP/1.1\r\n"),
        std::string(kMaxJoinRequestBytes + 1, 'a'), long_name.SerializeAsString(),
        long_csr.SerializeAsString(), not_utf8, deep}) {
    EXPECT_EQ(DecodeJoinRequest(bytes).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace muster
