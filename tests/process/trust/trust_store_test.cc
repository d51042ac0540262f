#include "coordinator/trust/trust_store.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <atomic>
#include <thread>

#include "coordinator/store/sqlite_database.h"
#include "tests/testing/temp_folder.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const WallTime kNow{std::chrono::seconds(1'800'000'000)};
constexpr auto kAgent = IdentityKind::kAgent;

StoredToken Token(const std::string& id, int64_t uses = 1) {
  return {.id = id,
          .key = std::string("k\0y", 3),
          .bound_name = "",
          .bound_network = "10.0.0.0/8",
          .uses_left = uses,
          .created_at = kNow,
          .expires_at = kNow + std::chrono::hours(1)};
}

Member Node(const std::string& name, const std::string& spki, const std::string& serial) {
  return {.kind = kAgent,
          .name = name,
          .spki_sha256 = spki,
          .serial = serial,
          .not_after = kNow + std::chrono::hours(24),
          .joined_at = kNow,
          .token_id = "token",
          .machine_id = "machine",
          .boot_id = "boot"};
}

IssuedCertificate CertificateOf(const Member& member) {
  return {.serial = member.serial,
          .kind = member.kind,
          .name = member.name,
          .spki_sha256 = member.spki_sha256,
          .issued_at = kNow,
          .not_after = member.not_after,
          .der = std::string("d\0r", 3)};
}

class TrustStoreTest : public testing::Test {
 protected:
  void SetUp() override { Open(); }
  void Open() {
    store_.reset();
    auto opened = TrustStore::Open(path_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
  }
  absl::Status Enrol(const Member& member, WallTime now = kNow) {
    return store_->Enrol(member, CertificateOf(member), now);
  }
  int64_t UsesLeft() { return (*store_->FindToken("token"))->uses_left; }

  TempFolder folder_;
  std::string path_ = folder_.File("trust.db");
  std::unique_ptr<TrustStore> store_;
};

TEST_F(TrustStoreTest, KeepsEverythingOverARestart) {
  ASSERT_TRUE(store_->AddToken(Token("token", 2)).ok());
  const Member node = Node("a", std::string("s\0", 2), "01");
  ASSERT_TRUE(Enrol(node).ok());
  Open();
  EXPECT_THAT(*store_->ListTokens(), ElementsAre(Token("token", 1)));
  EXPECT_THAT(*store_->ListMembers(), ElementsAre(node));
  EXPECT_EQ(*store_->FindMember(kAgent, "a"), node);
  EXPECT_EQ(*store_->FindCertificate("01"), CertificateOf(node));
  EXPECT_EQ(*store_->FindMember(IdentityKind::kUser, "a"), std::nullopt);
  EXPECT_EQ(*store_->FindCertificate("02"), std::nullopt);
}

TEST_F(TrustStoreTest, IsForItsOwnerOnly) {
  struct stat info = {};
  for (const char* ending : {"", "-wal", "-shm"}) {
    ASSERT_EQ(::stat((path_ + ending).c_str(), &info), 0) << ending;
    EXPECT_EQ(info.st_mode & 07777, 0600u) << ending;
  }
}

TEST_F(TrustStoreTest, SpendsNoUseWhenTheNameIsTaken) {
  ASSERT_TRUE(store_->AddToken(Token("token", 2)).ok());
  ASSERT_TRUE(Enrol(Node("a", "key 1", "01")).ok());
  EXPECT_EQ(Enrol(Node("a", "key 2", "02")).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(UsesLeft(), 1);
  EXPECT_EQ(*store_->FindCertificate("02"), std::nullopt);
  // The same key may come again.
  EXPECT_TRUE(Enrol(Node("a", "key 1", "03")).ok());
  EXPECT_EQ(UsesLeft(), 0);
}

TEST_F(TrustStoreTest, MakesNoMemberWithoutAUse) {
  EXPECT_EQ(Enrol(Node("a", "key", "01")).code(), absl::StatusCode::kAborted);
  ASSERT_TRUE(store_->AddToken(Token("token", 1)).ok());
  EXPECT_EQ(Enrol(Node("a", "key", "01"), kNow + std::chrono::hours(1)).code(),
            absl::StatusCode::kAborted);
  ASSERT_TRUE(Enrol(Node("a", "key", "01")).ok());
  EXPECT_EQ(Enrol(Node("b", "key", "02")).code(), absl::StatusCode::kAborted);
  EXPECT_THAT(*store_->ListMembers(), SizeIs(1));
}

TEST_F(TrustStoreTest, ManyAtOnceSpendEachUseOnce) {
  constexpr int kUses = 5;
  ASSERT_TRUE(store_->AddToken(Token("token", kUses)).ok());
  std::vector<std::thread> threads;
  std::atomic<int> admitted = 0;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      // Each with its own connection, as processes have.
      auto store = TrustStore::Open(path_);
      ASSERT_TRUE(store.ok()) << store.status();
      for (int i = 0; i < 4; ++i) {
        const std::string name = fmt::format("n{}-{}", thread, i);
        const Member node = Node(name, name, name);
        const absl::Status status = (*store)->Enrol(node, CertificateOf(node), kNow);
        if (status.ok()) {
          ++admitted;
        } else {
          EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(admitted, kUses);
  EXPECT_EQ(UsesLeft(), 0);
  EXPECT_THAT(*store_->ListMembers(), SizeIs(kUses));
}

TEST_F(TrustStoreTest, RevokesAllCertificatesOfAMember) {
  const Member node = Node("a", "key", "01");
  ASSERT_TRUE(store_->AddMember(node, CertificateOf(node)).ok());
  const Member other = Node("b", "key", "03");
  ASSERT_TRUE(store_->AddMember(other, CertificateOf(other)).ok());
  ASSERT_TRUE(store_->Renew(CertificateOf(Node("a", "key 2", "02")), "01", kNow).ok());
  EXPECT_EQ((*store_->FindMember(kAgent, "a"))->serial, "02");
  EXPECT_THAT(*store_->RevokedSerials(kNow), IsEmpty());
  EXPECT_THAT(*store_->Revoke(kAgent, "a"), ElementsAre("01", "02"));
  EXPECT_TRUE((*store_->FindMember(kAgent, "a"))->revoked);
  EXPECT_THAT(*store_->RevokedSerials(kNow), ElementsAre("01", "02"));
  EXPECT_THAT(*store_->RevokedSerials(kNow + std::chrono::hours(24)), IsEmpty());
  EXPECT_EQ(store_->Renew(CertificateOf(Node("a", "key 2", "04")), "02", kNow).code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(store_->AddMember(node, CertificateOf(Node("a", "key", "05"))).code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(store_->Revoke(kAgent, "c").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(TrustStoreTest, RemovingFreesTheNameAndKeepsTheCertificatesBad) {
  const Member node = Node("a", "key", "01");
  ASSERT_TRUE(store_->AddMember(node, CertificateOf(node)).ok());
  EXPECT_THAT(*store_->RemoveMember(kAgent, "a"), ElementsAre("01"));
  EXPECT_EQ(*store_->FindMember(kAgent, "a"), std::nullopt);
  EXPECT_THAT(*store_->RevokedSerials(kNow), ElementsAre("01"));
  EXPECT_EQ(store_->Renew(CertificateOf(Node("a", "key", "02")), "01", kNow).code(),
            absl::StatusCode::kNotFound);
  const Member next = Node("a", "another key", "03");
  EXPECT_TRUE(store_->AddMember(next, CertificateOf(next)).ok());
}

TEST_F(TrustStoreTest, ForgetsTokensThatEndedLongAgo) {
  ASSERT_TRUE(store_->AddToken(Token("old")).ok());
  StoredToken later = Token("later");
  later.created_at = kNow + std::chrono::hours(24 * 7);
  ASSERT_TRUE(store_->AddToken(later).ok());
  EXPECT_THAT(*store_->ListTokens(), SizeIs(2));
  StoredToken last = Token("last");
  last.created_at = kNow + std::chrono::hours(24 * 7 + 2);
  ASSERT_TRUE(store_->AddToken(last).ok());
  EXPECT_EQ(*store_->FindToken("old"), std::nullopt);
  EXPECT_TRUE(store_->RemoveToken("last").ok());
  EXPECT_EQ(store_->RemoveToken("last").code(), absl::StatusCode::kNotFound);
}

TEST_F(TrustStoreTest, RefusesAnotherDatabase) {
  const std::string path = folder_.File("other.db");
  auto other = SqliteDatabase::Open(path, true);
  ASSERT_TRUE(other.ok() && other->Execute("CREATE TABLE x(y)").ok());
  EXPECT_EQ(TrustStore::Open(path).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(TrustStoreTest, RenewsFromTheNewestCertificateOnly) {
  const Member node = Node("a", "key", "01");
  ASSERT_TRUE(store_->AddMember(node, CertificateOf(node)).ok());
  ASSERT_TRUE(store_->Renew(CertificateOf(Node("a", "key 2", "02")), "01", kNow).ok());
  // Two at once: the second one comes too late.
  EXPECT_EQ(store_->Renew(CertificateOf(Node("a", "key 3", "03")), "01", kNow).code(),
            absl::StatusCode::kAborted);
  EXPECT_EQ((*store_->FindMember(kAgent, "a"))->spki_sha256, "key 2");
  EXPECT_EQ(*store_->FindCertificate("03"), std::nullopt);
  // What ended long ago is forgotten.
  ASSERT_TRUE(store_
                  ->Renew(CertificateOf(Node("a", "key 4", "04")), "02",
                          kNow + std::chrono::hours(24 * 100))
                  .ok());
  EXPECT_EQ(*store_->FindCertificate("01"), std::nullopt);
  EXPECT_NE(*store_->FindCertificate("04"), std::nullopt);
}

TEST_F(TrustStoreTest, APersonRenewsOnEachMachineFromTheNewestThere) {
  const auto person = [](const std::string& spki, const std::string& serial, int hours = 24) {
    Member member = Node("alice", spki, serial);
    member.kind = IdentityKind::kUser;
    member.not_after = kNow + std::chrono::hours(hours);
    return member;
  };
  const auto row = [this] { return (*store_->FindMember(IdentityKind::kUser, "alice"))->serial; };
  for (const Member& joined : {person("laptop", "01"), person("desktop", "02")}) {
    ASSERT_TRUE(store_->AddMember(joined, CertificateOf(joined)).ok());
  }
  ASSERT_TRUE(store_->Renew(CertificateOf(person("laptop 2", "03", 48)), "01", kNow).ok());
  EXPECT_EQ(row(), "02") << "the machine that joined last";
  EXPECT_EQ((*store_->FindCertificate("01"))->successor, "03");
  EXPECT_EQ(store_->Renew(CertificateOf(person("copy", "04")), "01", kNow).code(),
            absl::StatusCode::kAborted);
  EXPECT_EQ(*store_->FindCertificate("04"), std::nullopt);
  ASSERT_TRUE(store_->Renew(CertificateOf(person("desktop 2", "05", 30)), "02", kNow).ok());
  EXPECT_EQ(row(), "05");
  // Once the certificate of that machine has ended, another one speaks for the person.
  ASSERT_TRUE(
      store_
          ->Renew(CertificateOf(person("laptop 3", "06", 99)), "03", kNow + std::chrono::hours(31))
          .ok());
  EXPECT_EQ(row(), "06");
  ASSERT_EQ(store_->Revoke(IdentityKind::kUser, "alice")->size(), 5u);
  EXPECT_EQ(store_->Renew(CertificateOf(person("laptop 4", "07")), "06", kNow).code(),
            absl::StatusCode::kPermissionDenied);
}

TEST_F(TrustStoreTest, RemembersTheAuthoritiesThatAMemberTrusts) {
  const Member node = Node("a", "key", "01");
  ASSERT_TRUE(store_->AddMember(node, CertificateOf(node)).ok());
  const std::string digests("a\0b", 3);
  ASSERT_TRUE(store_->SetAuthorities(kAgent, "a", digests).ok());
  ASSERT_TRUE(store_->Renew(CertificateOf(Node("a", "key 2", "02")), "01", kNow).ok());
  Open();
  EXPECT_EQ((*store_->FindMember(kAgent, "a"))->authorities, digests);
}

TEST_F(TrustStoreTest, ReadsTheStoresOfTheVersionsBefore) {
  const Member node = Node("a", "key", "01");
  ASSERT_TRUE(store_->AddMember(node, CertificateOf(node)).ok());
  for (const char* undo : {"ALTER TABLE certificates DROP COLUMN successor;"
                           "PRAGMA user_version=2;",
                           "ALTER TABLE certificates DROP COLUMN successor;"
                           "ALTER TABLE members DROP COLUMN authorities;"
                           "PRAGMA user_version=1;"}) {
    store_.reset();
    absl::StatusOr<SqliteDatabase> database = SqliteDatabase::Open(path_, false);
    ASSERT_TRUE(database.ok());
    ASSERT_TRUE(database->Execute(undo).ok());
    database = absl::UnavailableError("closed");
    Open();
    EXPECT_EQ(*store_->FindMember(kAgent, "a"), node) << undo;
    EXPECT_EQ(*store_->FindCertificate("01"), CertificateOf(node)) << undo;
  }
  EXPECT_TRUE(store_->SetAuthorities(kAgent, "a", "x").ok());
}

}  // namespace
}  // namespace muster
