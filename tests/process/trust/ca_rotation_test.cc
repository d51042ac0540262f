#include "coordinator/trust/ca_rotation.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "common/base/annotate.h"
#include "common/crypto/issuer.h"
#include "common/crypto/verify.h"
#include "coordinator/trust/trust_files.h"
#include "coordinator/trust/trust_keeper.h"
#include "tests/testing/temp_folder.h"

namespace muster {
namespace {

using std::chrono::hours;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class SetClock final : public Clock {
 public:
  TimePoint Now() const override { return std::chrono::steady_clock::now(); }
  WallTime WallNow() const override { return now; }
  WallTime now{std::chrono::seconds(1'800'000'000)};
};

class CaRotation : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(InitTrust(directory_, {.hosts = {"head"}}, clock_.now).ok());
    Start();
  }
  // As a coordinator that starts with what is on the disk.
  void Start() {
    keeper_.reset();
    ASSERT_TRUE(RenewCoordinatorWhenDue(directory_, clock_.now).ok());
    absl::StatusOr<Trust> trust = LoadTrust(directory_, clock_.now);
    ASSERT_TRUE(trust.ok()) << trust.status();
    live_ = std::make_unique<LiveTrust>(*std::move(trust));
    store_.reset();
    store_ = *TrustStore::Open(TrustDatabasePath(directory_));
    audit_ = *AuditLog::Open(directory_ + "/audit.jsonl");
    keeper_ = std::make_unique<TrustKeeper>(directory_, *live_, *store_, *audit_, clock_);
  }
  // A node gets a certificate of the CA that signs; tells nothing yet.
  void Join(const std::string& name, std::chrono::hours life = hours(24 * 14)) {
    const std::shared_ptr<const Trust> trust = live_->Get();
    const Identity identity{trust->cluster_id, IdentityKind::kAgent, name};
    const Certificate made = Make(identity, life);
    ASSERT_TRUE(store_
                    ->AddMember({.kind = identity.kind,
                                 .name = name,
                                 .spki_sha256 = made.SpkiSha256(),
                                 .serial = made.serial(),
                                 .not_after = made.not_after(),
                                 .joined_at = clock_.now,
                                 .token_id = "token"},
                                RecordOf(made, identity, clock_.now))
                    .ok());
  }
  Certificate Make(const Identity& identity, std::chrono::hours life) {
    const std::shared_ptr<const Trust> trust = live_->Get();
    return *Issue(trust->ca(), trust->ca_key, PrivateKey::Generate().public_key(),
                  {.identity = identity,
                   .client = true,
                   .not_before = clock_.now - kBackdate,
                   .not_after = clock_.now + life});
  }
  // It renews, and tells what it trusts then.
  void Renew(const std::string& name) {
    const std::shared_ptr<const Trust> trust = live_->Get();
    const Identity identity{trust->cluster_id, IdentityKind::kAgent, name};
    const std::string former = (*store_->FindMember(identity.kind, name))->serial;
    const Certificate made = Make(identity, hours(24 * 14));
    ASSERT_TRUE(store_->Renew(RecordOf(made, identity, clock_.now), former, clock_.now).ok());
    ASSERT_TRUE(store_->SetAuthorities(identity.kind, name, AuthoritiesOf(trust->ca_bundle)).ok());
  }
  std::vector<std::string> Awaited() {
    const auto awaited = keeper_->Awaited();
    EXPECT_TRUE(awaited.ok()) << awaited.status();
    std::vector<std::string> names;
    for (const Member& member : *awaited) names.push_back(member.name);
    return names;
  }
  void Step() {
    const absl::Status stepped = keeper_->Step();
    ASSERT_TRUE(stepped.ok()) << stepped;
  }
  RotationPhase phase() const { return live_->Get()->phase; }

  TempFolder folder_;
  const std::string directory_ = folder_.File("trust");
  SetClock clock_;
  std::unique_ptr<LiveTrust> live_;
  std::unique_ptr<TrustStore> store_;
  std::unique_ptr<AuditLog> audit_;
  std::unique_ptr<TrustKeeper> keeper_;
};

TEST_F(CaRotation, GoesOnAsMembersRenew) {
  Join("node-1");
  Join("node-2");
  const Certificate former = live_->Get()->ca();
  const Certificate former_coordinator = live_->Get()->coordinator;
  ASSERT_TRUE(keeper_->BeginRotation({.name = "root"}).ok());
  EXPECT_EQ(phase(), RotationPhase::kTrustBoth);
  EXPECT_EQ(live_->Get()->ca().Fingerprint(), former.Fingerprint()) << "it signs still";
  EXPECT_THAT(Awaited(), ElementsAre("node-1", "node-2"));
  Renew("node-1");
  Step();
  EXPECT_EQ(phase(), RotationPhase::kTrustBoth);
  EXPECT_THAT(Awaited(), ElementsAre("node-2"));
  Renew("node-2");
  Step();
  EXPECT_EQ(phase(), RotationPhase::kIssueNew);
  {
    const std::shared_ptr<const Trust> trust = live_->Get();
    EXPECT_NE(trust->ca().Fingerprint(), former.Fingerprint());
    EXPECT_TRUE(IsSignedBy(trust->coordinator, trust->ca()));
    // Whoever knows only the former authority is shown the certificate of that one.
    ASSERT_THAT(trust->coordinator_former, SizeIs(1));
    EXPECT_EQ(trust->coordinator_former[0].Fingerprint(), former_coordinator.Fingerprint());
    EXPECT_THAT(trust->ServerChain(), SizeIs(4));
  }
  EXPECT_THAT(Awaited(), ElementsAre("node-1", "node-2"));
  Renew("node-1");
  Step();
  EXPECT_EQ(phase(), RotationPhase::kIssueNew);
  Renew("node-2");
  Step();
  EXPECT_EQ(phase(), RotationPhase::kSteady);
  EXPECT_THAT(live_->Get()->ca_bundle, SizeIs(1));
  EXPECT_THAT(live_->Get()->ServerChain(), SizeIs(2));
  EXPECT_NE(live_->Get()->ca().Fingerprint(), former.Fingerprint());
  // The admin's came along.
  const auto admin = ReadTrustCertificates(directory_, "admin.crt");
  ASSERT_TRUE(admin.ok());
  EXPECT_TRUE(IsSignedBy(admin->front(), live_->Get()->ca()));
  // And once more.
  ASSERT_TRUE(keeper_->BeginRotation({.name = "root"}).ok());
  EXPECT_EQ(phase(), RotationPhase::kTrustBoth);
}

TEST_F(CaRotation, IsNotBegunTwiceAndNamesWhomItWaitsFor) {
  Join("node-1");
  ASSERT_TRUE(keeper_->BeginRotation({.name = "root"}).ok());
  const absl::Status again = keeper_->BeginRotation({.name = "root"});
  EXPECT_EQ(again.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(MessageOf(again)),
              testing::AllOf(HasSubstr("agent node-1"), HasSubstr("2027-01-29")));
}

TEST_F(CaRotation, WaitsForNobodyWhoIsRevokedOrWhoseCertificateHasEnded) {
  Join("node-1");
  Join("node-2", hours(1));
  ASSERT_TRUE(keeper_->BeginRotation({.name = "root"}).ok());
  EXPECT_THAT(Awaited(), SizeIs(2));
  ASSERT_TRUE(store_->Revoke(IdentityKind::kAgent, "node-1").ok());
  EXPECT_THAT(Awaited(), ElementsAre("node-2"));
  clock_.now += hours(1);
  EXPECT_THAT(Awaited(), IsEmpty());
  Step();
  Step();
  EXPECT_EQ(phase(), RotationPhase::kSteady);
}

TEST_F(CaRotation, MayBeKilledAnywhere) {
  // Between any two writes of a step; what a start makes of it is what the step would have made, or
  // what was before.
  Join("node-1");
  // The key of the next authority is there, and its certificate is not.
  ASSERT_TRUE(WriteTrustFile(directory_, kNextCaKeyFile, PrivateKey::Generate().ToPem()).ok());
  Start();
  EXPECT_EQ(phase(), RotationPhase::kSteady);
  ASSERT_TRUE(keeper_->BeginRotation({.name = "root"}).ok());
  Start();
  EXPECT_EQ(phase(), RotationPhase::kTrustBoth);
  EXPECT_THAT(Awaited(), ElementsAre("node-1"));
  Renew("node-1");
  // The former certificate is kept, and the key is not in its place yet.
  ASSERT_TRUE(
      WriteTrustFile(directory_, kFormerCoordinatorFile, live_->Get()->coordinator.ToPem()).ok());
  Start();
  EXPECT_EQ(phase(), RotationPhase::kTrustBoth);
  // The key is, and the coordinator has no certificate of it yet.
  std::filesystem::rename(TrustFilePath(directory_, kNextCaKeyFile),
                          TrustFilePath(directory_, kCaKeyFile));
  Start();
  EXPECT_EQ(phase(), RotationPhase::kIssueNew);
  EXPECT_TRUE(IsSignedBy(live_->Get()->coordinator, live_->Get()->ca()));
  EXPECT_THAT(live_->Get()->coordinator_former, SizeIs(1));
  Renew("node-1");
  // The former authority is dropped, and its certificate of the coordinator is there still.
  ASSERT_TRUE(WriteTrustFile(directory_, kCaFile, live_->Get()->ca().ToPem()).ok());
  Start();
  EXPECT_EQ(phase(), RotationPhase::kSteady);
  EXPECT_THAT(live_->Get()->coordinator_former, IsEmpty());
  Step();
}

TEST_F(CaRotation, TakesOneStepAtATimeAndNoneTwice) {
  EXPECT_EQ(IssueFromNew(directory_, clock_.now).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(DropFormer(directory_, clock_.now).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(BeginRotation(directory_, clock_.now).ok());
  EXPECT_EQ(BeginRotation(directory_, clock_.now).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(DropFormer(directory_, clock_.now).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(CaRotation, TheKeeperRenewsWhatIsTheCoordinatorsOwn) {
  const std::string before = live_->Get()->coordinator.serial();
  Step();
  EXPECT_EQ(live_->Get()->coordinator.serial(), before);
  clock_.now += hours(24 * 10);
  Step();
  EXPECT_NE(live_->Get()->coordinator.serial(), before);
  EXPECT_EQ(live_->Get()->coordinator.not_after(), clock_.now + kCertificateLife);
  clock_.now += hours(24 * 300);
  const std::string admin = ReadTrustCertificates(directory_, "admin.crt")->front().serial();
  Step();
  EXPECT_NE(ReadTrustCertificates(directory_, "admin.crt")->front().serial(), admin);
  // One that was revoked is not renewed.
  ASSERT_TRUE(store_->Revoke(IdentityKind::kAdmin, "admin").ok());
  const std::string last = ReadTrustCertificates(directory_, "admin.crt")->front().serial();
  clock_.now += hours(24 * 300);
  Step();
  EXPECT_EQ(ReadTrustCertificates(directory_, "admin.crt")->front().serial(), last);
}

}  // namespace
}  // namespace muster
