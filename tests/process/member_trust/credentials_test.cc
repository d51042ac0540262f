#include "common/trust/credentials.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "common/base/annotate.h"
#include "common/crypto/issuer.h"
#include "tests/testing/temp_folder.h"

namespace muster {
namespace {

using std::chrono::hours;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const WallTime kNow{std::chrono::seconds(1'800'000'000)};

struct TestCa {
  std::string id = NewClusterId();
  PrivateKey key = PrivateKey::Generate();
  Certificate ca = *MakeCa(key, id, kNow, kNow + hours(1000));

  Credentials Make(const std::string& name) const {
    const PrivateKey own = PrivateKey::Generate();
    const Identity identity{id, IdentityKind::kAgent, name};
    return {own,
            *Issue(ca, key, own.public_key(),
                   {.identity = identity,
                    .client = true,
                    .not_before = kNow,
                    .not_after = kNow + hours(10)}),
            {ca},
            identity,
            {"head:7443", "head2:7443"}};
  }
};

class CredentialsTest : public testing::Test {
 protected:
  int Sets() {
    int sets = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      sets += entry.path().filename().string().starts_with("gen-") ? 1 : 0;
    }
    return sets;
  }

  TempFolder folder_;
  std::string path_ = folder_.File("trust");
  CredentialsDirectory directory_{path_};
  TestCa ca_;
};

TEST_F(CredentialsTest, AreLoadedAsInstalled) {
  EXPECT_EQ(directory_.Load().status().code(), absl::StatusCode::kNotFound);
  const Credentials made = ca_.Make("node-1");
  ASSERT_TRUE(directory_.Install(made).ok());
  const absl::StatusOr<Credentials> loaded = directory_.Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->key.SpkiSha256(), made.key.SpkiSha256());
  EXPECT_EQ(loaded->certificate.Fingerprint(), made.certificate.Fingerprint());
  EXPECT_EQ(loaded->identity, made.identity);
  EXPECT_THAT(loaded->ca_bundle, SizeIs(1));
  EXPECT_THAT(loaded->coordinators, ElementsAre("head:7443", "head2:7443"));
  struct stat info = {};
  ASSERT_EQ(::stat(directory_.KeyPath().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700u);
}

TEST_F(CredentialsTest, KeepTheSetBefore) {
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(directory_.Install(ca_.Make("node-1")).ok());
  EXPECT_EQ(Sets(), 2);
  EXPECT_TRUE(directory_.Load().ok());
}

TEST_F(CredentialsTest, AreNotInstalledWhenTheyDoNotFit) {
  ASSERT_TRUE(directory_.Install(ca_.Make("node-1")).ok());
  Credentials wrong_key = ca_.Make("node-2");
  wrong_key.key = PrivateKey::Generate();
  Credentials wrong_name = ca_.Make("node-2");
  wrong_name.identity.name = "node-3";
  Credentials wrong_ca = ca_.Make("node-2");
  wrong_ca.ca_bundle = {TestCa().ca};
  for (const Credentials& wrong : {wrong_key, wrong_name, wrong_ca}) {
    EXPECT_EQ(directory_.Install(wrong).code(), absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(Sets(), 1);
  EXPECT_EQ(directory_.Load()->identity.name, "node-1");
}

TEST_F(CredentialsTest, AreRefusedWhenDamaged) {
  const auto expect = [&](const std::string& part) {
    const absl::StatusOr<Credentials> loaded = directory_.Load();
    EXPECT_EQ(loaded.status().code(), absl::StatusCode::kFailedPrecondition) << loaded.status();
    EXPECT_THAT(std::string(MessageOf(loaded.status())), HasSubstr(part));
  };
  ASSERT_TRUE(directory_.Install(ca_.Make("node-1")).ok());
  ASSERT_EQ(::chmod(directory_.KeyPath().c_str(), 0644), 0);
  expect("mode is 644");
  ASSERT_EQ(::chmod(directory_.KeyPath().c_str(), 0600), 0);
  std::ofstream(directory_.CertificatePath()) << ca_.Make("node-1").certificate.ToPem();
  expect("does not belong to the key");
  std::ofstream(directory_.CertificatePath()) << "x";
  expect("cert.pem");
  std::filesystem::remove(directory_.CaPath());
  std::ofstream(directory_.CertificatePath()) << ca_.Make("node-1").certificate.ToPem();
  expect("part of it is missing");
}

TEST_F(CredentialsTest, AreWholeForReadersWhileTheyAreReplaced) {
  ASSERT_TRUE(directory_.Install(ca_.Make("node-0")).ok());
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (int i = 1; i < 20; ++i) {
      EXPECT_TRUE(directory_.Install(ca_.Make(fmt::format("node-{}", i))).ok());
    }
    stop = true;
  });
  while (!stop) {
    const absl::StatusOr<Credentials> loaded = directory_.Load();
    EXPECT_TRUE(loaded.ok()) << loaded.status();
  }
  writer.join();
  EXPECT_EQ(directory_.Load()->identity.name, "node-19");
}

TEST_F(CredentialsTest, SurviveSetsThatNeverBecameCurrent) {
  ASSERT_TRUE(directory_.Install(ca_.Make("node-1")).ok());
  // As a crash leaves them.
  std::filesystem::create_directory(path_ + "/gen-7");
  std::filesystem::create_symlink("gen-7", path_ + "/current.new");
  EXPECT_EQ(directory_.Load()->identity.name, "node-1");
  ASSERT_TRUE(directory_.Install(ca_.Make("node-2")).ok());
  EXPECT_EQ(directory_.Load()->identity.name, "node-2");
  EXPECT_EQ(Sets(), 2);
}

TEST_F(CredentialsTest, PendingKeyStaysUntilInstall) {
  const absl::StatusOr<PrivateKey> first = directory_.PendingKey();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(directory_.PendingKey()->SpkiSha256(), first->SpkiSha256());
  std::ofstream(path_ + "/pending.pem") << "x";
  const absl::StatusOr<PrivateKey> second = directory_.PendingKey();
  ASSERT_TRUE(second.ok());
  EXPECT_NE(second->SpkiSha256(), first->SpkiSha256());
  ASSERT_TRUE(directory_.Install(ca_.Make("node-1")).ok());
  EXPECT_NE(directory_.PendingKey()->SpkiSha256(), second->SpkiSha256());
}

TEST_F(CredentialsTest, AKeyThatIsInUseIsNotPending) {
  const Credentials made = ca_.Make("node-1");
  ASSERT_TRUE(directory_.Install(made).ok());
  // As if the agent had been killed before it could forget the pending key.
  std::ofstream(path_ + "/pending.pem") << made.key.ToPem();
  ASSERT_EQ(::chmod((path_ + "/pending.pem").c_str(), 0600), 0);
  const absl::StatusOr<PrivateKey> key = directory_.PendingKey();
  ASSERT_TRUE(key.ok()) << key.status();
  EXPECT_NE(key->SpkiSha256(), made.key.SpkiSha256());
  EXPECT_EQ(directory_.PendingKey()->SpkiSha256(), key->SpkiSha256());
}

}  // namespace
}  // namespace muster
