#include "coordinator/trust/renewal.h"

#include <gmock/gmock.h>

#include <map>

#include "common/base/utc.h"
#include "common/crypto/csr.h"
#include "common/crypto/issuer.h"
#include "common/crypto/join_token.h"
#include "common/trust/renewal.h"

namespace muster {
namespace {

using std::chrono::hours;
using ::testing::HasSubstr;
using v1::JoinRefused;

const WallTime kNow{std::chrono::seconds(1'800'000'000)};
const std::string kExporter(32, 'e');

// One node, with certificates as it had them one after the other.
class Renewal : public testing::Test, public EnrolmentRecords {
 protected:
  absl::StatusOr<std::optional<StoredToken>> FindToken(std::string_view) override {
    return std::nullopt;
  }
  absl::StatusOr<std::optional<Member>> FindMember(IdentityKind kind,
                                                   std::string_view name) override {
    if (!member_ || kind != member_->kind || name != member_->name) return std::nullopt;
    return member_;
  }
  absl::StatusOr<std::optional<IssuedCertificate>> FindCertificate(
      std::string_view serial) override {
    const auto found = certificates_.find(std::string(serial));
    if (found == certificates_.end()) return std::nullopt;
    return found->second;
  }

  // A certificate for this key becomes the newest.
  Certificate Give(const PrivateKey& key) {
    const Certificate made = *Issue(ca_, ca_key_, key.public_key(),
                                    {.identity = {cluster_, IdentityKind::kAgent, "node-1"},
                                     .client = true,
                                     .not_before = kNow - kBackdate,
                                     .not_after = kNow + hours(100)});
    certificates_[made.serial()] = {.serial = made.serial(),
                                    .kind = IdentityKind::kAgent,
                                    .name = "node-1",
                                    .spki_sha256 = key.SpkiSha256(),
                                    .issued_at = kNow,
                                    .not_after = made.not_after(),
                                    .der = made.ToDer()};
    member_ = Member{.kind = IdentityKind::kAgent,
                     .name = "node-1",
                     .spki_sha256 = key.SpkiSha256(),
                     .serial = made.serial(),
                     .not_after = made.not_after()};
    return made;
  }
  RenewalDecision Decide(const Certificate& presented, const PrivateKey& key, WallTime now = kNow) {
    return *DecideRenewal(certificates_[presented.serial()], key.public_key(), now, *this);
  }
  v1::JoinRequest Request(const Certificate& presented, const PrivateKey& holder,
                          const PrivateKey& key) {
    v1::JoinRequest request;
    request.set_protocol(kJoinProtocol);
    request.set_csr(MakeCsr(key));
    request.set_member_certificate(presented.ToDer());
    request.set_member_signature(holder.Sign(RejoinStatement(kExporter, request.csr())));
    return request;
  }
  RenewalDecision Rejoin(const v1::JoinRequest& request, WallTime now = kNow + hours(200)) {
    return *DecideRejoin(request, now, kExporter, *this);
  }
  static void ExpectRefused(const RenewalDecision& decision, JoinRefused::Cause cause,
                            const std::string& part = "") {
    const auto* refusal = std::get_if<JoinRefusal>(&decision);
    ASSERT_NE(refusal, nullptr);
    EXPECT_EQ(refusal->cause, cause) << refusal->message;
    EXPECT_THAT(refusal->message, HasSubstr(part));
  }

  const std::string cluster_ = NewClusterId();
  const PrivateKey ca_key_ = PrivateKey::Generate();
  const Certificate ca_ = *MakeCa(ca_key_, cluster_, kNow - kBackdate, kNow + hours(9999));
  const PrivateKey old_key_ = PrivateKey::Generate();
  const PrivateKey new_key_ = PrivateKey::Generate();
  std::optional<Member> member_;
  std::map<std::string, IssuedCertificate> certificates_;
};

TEST_F(Renewal, IsGrantedToTheNewestCertificateForANewKey) {
  const Certificate current = Give(old_key_);
  const RenewalDecision decision = Decide(current, new_key_);
  const auto* grant = std::get_if<RenewalGrant>(&decision);
  ASSERT_NE(grant, nullptr) << std::get<JoinRefusal>(decision).message;
  EXPECT_EQ(grant->name, "node-1");
  EXPECT_EQ(grant->serial, current.serial());
  EXPECT_EQ(grant->key.SpkiSha256(), new_key_.SpkiSha256());
  ExpectRefused(Decide(current, old_key_), JoinRefused::BAD_REQUEST, "new key");
}

TEST_F(Renewal, AskedForAgainIsTheSameCertificate) {
  const Certificate former = Give(old_key_);
  const Certificate newest = Give(new_key_);
  const RenewalDecision decision = Decide(former, new_key_);
  const auto* repetition = std::get_if<JoinRepetition>(&decision);
  ASSERT_NE(repetition, nullptr);
  EXPECT_EQ(repetition->certificate.serial, newest.serial());
  // Once that has ended, it is a new one.
  const RenewalDecision later = Decide(former, new_key_, kNow + hours(101));
  const auto* grant = std::get_if<RenewalGrant>(&later);
  ASSERT_NE(grant, nullptr);
  EXPECT_EQ(grant->serial, newest.serial());
}

TEST_F(Renewal, APersonHasOneOnEachMachine) {
  member_ = Member{.kind = IdentityKind::kUser, .name = "alice", .serial = "03"};
  const auto put = [this](const std::string& serial, const PrivateKey& key,
                          const std::string& successor) {
    certificates_[serial] = {.serial = serial,
                             .kind = IdentityKind::kUser,
                             .name = "alice",
                             .spki_sha256 = key.SpkiSha256(),
                             .not_after = kNow + hours(100),
                             .successor = successor};
  };
  const PrivateKey other = PrivateKey::Generate();
  // The laptop has renewed once; the desktop joined later.
  put("01", old_key_, "02");
  put("02", new_key_, "");
  put("03", other, "");
  const auto decide = [this](const std::string& serial, const PrivateKey& key,
                             WallTime now = kNow) {
    return *DecideRenewal(certificates_[serial], key.public_key(), now, *this);
  };
  const PrivateKey next = PrivateKey::Generate();
  for (const std::string serial : {"02", "03"}) {
    const RenewalDecision decision = decide(serial, next);
    const auto* grant = std::get_if<RenewalGrant>(&decision);
    ASSERT_NE(grant, nullptr) << std::get<JoinRefusal>(decision).message;
    EXPECT_EQ(grant->serial, serial);
  }
  const RenewalDecision again = decide("01", new_key_);
  ASSERT_TRUE(std::holds_alternative<JoinRepetition>(again));
  EXPECT_EQ(std::get<JoinRepetition>(again).certificate.serial, "02");
  ExpectRefused(decide("01", next), JoinRefused::SUPERSEDED, "coordinator user add alice");
  ExpectRefused(decide("01", next), JoinRefused::SUPERSEDED, "coordinator user remove alice");
  // No person comes back with one that has ended, and none with another that was made from it.
  for (const std::string serial : {"01", "02", "03"}) {
    ExpectRefused(decide(serial, next, kNow + hours(100)), JoinRefused::TOO_LATE,
                  "coordinator user add alice");
  }
  certificates_["02"].not_after = kNow + hours(200);
  ExpectRefused(decide("01", new_key_, kNow + hours(100)), JoinRefused::TOO_LATE);
  certificates_.erase("02");
  ExpectRefused(decide("01", next), JoinRefused::SUPERSEDED);
  member_->revoked = true;
  ExpectRefused(decide("03", next), JoinRefused::REVOKED);
}

TEST_F(Renewal, IsRefusedToACopyOfWhatTheMemberWas) {
  const Certificate former = Give(old_key_);
  Give(new_key_);
  ExpectRefused(Decide(former, PrivateKey::Generate()), JoinRefused::SUPERSEDED, "--free-name");
}

TEST_F(Renewal, IsRefusedToTheRevokedAndTheRemoved) {
  const Certificate current = Give(old_key_);
  member_->revoked = true;
  ExpectRefused(Decide(current, new_key_), JoinRefused::REVOKED, "revoked");
  member_.reset();
  ExpectRefused(Decide(current, new_key_), JoinRefused::UNKNOWN_MEMBER);
  // Another member has the name now.
  Give(PrivateKey::Generate());
  certificates_[current.serial()].revoked = true;
  ExpectRefused(Decide(current, new_key_), JoinRefused::REVOKED);
}

TEST_F(Renewal, LetsAMemberComeBackForThirtyDays) {
  const Certificate current = Give(old_key_);
  const v1::JoinRequest request = Request(current, old_key_, new_key_);
  EXPECT_TRUE(std::holds_alternative<RenewalGrant>(Rejoin(request)));
  EXPECT_TRUE(std::holds_alternative<RenewalGrant>(
      Rejoin(request, kNow + hours(100) + kRejoinLimit - hours(1))));
  ExpectRefused(Rejoin(request, kNow + hours(100) + kRejoinLimit), JoinRefused::TOO_LATE,
                FormatUtc(current.not_after()));
}

TEST_F(Renewal, WantsProofOfTheOldKeyOnThisConnection) {
  const Certificate current = Give(old_key_);
  ExpectRefused(Rejoin(Request(current, new_key_, new_key_)), JoinRefused::UNKNOWN_MEMBER);
  v1::JoinRequest request = Request(current, old_key_, new_key_);
  const absl::StatusOr<RenewalDecision> elsewhere =
      DecideRejoin(request, kNow, std::string(32, 'x'), *this);
  ASSERT_TRUE(elsewhere.ok());
  ExpectRefused(*elsewhere, JoinRefused::UNKNOWN_MEMBER);
  // Somebody in between puts in a key of his own.
  request.set_csr(MakeCsr(PrivateKey::Generate()));
  ExpectRefused(Rejoin(request), JoinRefused::UNKNOWN_MEMBER);
  request = Request(current, old_key_, new_key_);
  request.set_protocol(0);
  ExpectRefused(Rejoin(request), JoinRefused::VERSION);
  request = Request(current, old_key_, new_key_);
  request.set_member_certificate("no certificate");
  ExpectRefused(Rejoin(request), JoinRefused::BAD_REQUEST);
}

TEST_F(Renewal, TakesOnlyTheVeryCertificateThatWasGivenOut) {
  const Certificate current = Give(old_key_);
  certificates_[current.serial()].der += "x";
  ExpectRefused(Rejoin(Request(current, old_key_, new_key_)), JoinRefused::UNKNOWN_MEMBER);
  certificates_.clear();
  ExpectRefused(Rejoin(Request(current, old_key_, new_key_)), JoinRefused::UNKNOWN_MEMBER);
}

}  // namespace
}  // namespace muster
