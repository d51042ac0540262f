#include "coordinator/trust/trust_directory.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <fstream>

#include "common/base/annotate.h"
#include "common/base/utc.h"
#include "common/crypto/issuer.h"
#include "common/crypto/verify.h"
#include "common/io/atomic_file.h"
#include "coordinator/trust/trust_store.h"
#include "tests/testing/temp_folder.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const WallTime kNow{std::chrono::seconds(1'800'000'000)};

class TrustDirectory : public testing::Test {
 protected:
  Trust Init() {
    absl::StatusOr<Trust> made = InitTrust(directory_, {.hosts = {"head", "192.0.2.1"}}, kNow);
    EXPECT_TRUE(made.ok()) << made.status();
    if (!made.ok()) std::abort();
    return *std::move(made);
  }
  std::string Read(const std::string& name) {
    std::string bytes;
    EXPECT_FALSE(ReadFile(directory_ + "/" + name, bytes)) << name;
    return bytes;
  }
  void Write(const std::string& name, const std::string& bytes) {
    EXPECT_FALSE(
        WriteFileAtomically(directory_ + "/" + name, bytes, 0600, Durability::kProcessCrash));
  }
  void ExpectUnusable(const std::string& file, const std::string& why, WallTime now = kNow) {
    const absl::StatusOr<Trust> loaded = LoadTrust(directory_, now);
    EXPECT_EQ(loaded.status().code(), absl::StatusCode::kFailedPrecondition) << loaded.status();
    EXPECT_THAT(std::string(MessageOf(loaded.status())),
                testing::AllOf(HasSubstr(file), HasSubstr(why)));
  }

  TempFolder folder_;
  std::string directory_ = folder_.File("trust");
};

TEST_F(TrustDirectory, IsLoadedAsItWasMade) {
  const Trust made = Init();
  const absl::StatusOr<Trust> loaded = LoadTrust(directory_, kNow);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->cluster_id, made.cluster_id);
  EXPECT_EQ(loaded->ca().Fingerprint(), made.ca().Fingerprint());
  EXPECT_EQ(loaded->ca_key.SpkiSha256(), made.ca_key.SpkiSha256());
  EXPECT_EQ(loaded->coordinator.Fingerprint(), made.coordinator.Fingerprint());
  EXPECT_THAT(loaded->coordinator.dns_sans(), ElementsAre("head"));
  EXPECT_EQ(loaded->ServerChain().size(), 2u);
}

TEST_F(TrustDirectory, IsForItsOwnerOnly) {
  Init();
  struct stat info = {};
  ASSERT_EQ(::stat(directory_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700u);
  for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
    ASSERT_EQ(::stat(entry.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0600u) << entry.path();
  }
}

TEST_F(TrustDirectory, MakesTheAdminAMember) {
  const Trust made = Init();
  const auto key = PrivateKey::FromPem(Read("admin.key"));
  const auto certificate = Certificate::FromPem(Read("admin.crt"));
  ASSERT_TRUE(key.ok() && certificate.ok());
  EXPECT_TRUE(certificate->Holds(*key));
  EXPECT_TRUE(VerifyCertificate(*certificate, made.ca_bundle, CertificateUse::kClient, kNow).ok());
  EXPECT_EQ(*IdentityOf(*certificate), (Identity{made.cluster_id, IdentityKind::kAdmin, "admin"}));
  const auto store = TrustStore::Open(TrustDatabasePath(directory_));
  ASSERT_TRUE(store.ok()) << store.status();
  const auto member = (*store)->FindMember(IdentityKind::kAdmin, "admin");
  ASSERT_TRUE(member.ok() && *member);
  EXPECT_EQ((*member)->serial, certificate->serial());
}

TEST_F(TrustDirectory, IsNeverOverwritten) {
  const Trust made = Init();
  EXPECT_EQ(InitTrust(directory_, {}, kNow).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(LoadTrust(directory_, kNow)->cluster_id, made.cluster_id);
  // Nothing is left beside it.
  EXPECT_THAT(
      std::vector<std::filesystem::path>(std::filesystem::directory_iterator(folder_.path()), {}),
      testing::SizeIs(1));
}

TEST_F(TrustDirectory, IsMadeAsAWholeOrNotAtAll) {
  EXPECT_EQ(InitTrust(directory_, {.hosts = {"a b"}}, kNow).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(InitTrust(directory_, {.admin_name = "../x"}, kNow).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
  EXPECT_EQ(LoadTrust(directory_, kNow).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(TrustDirectory, IsRefusedWhenOthersMayReadAKey) {
  Init();
  ASSERT_EQ(::chmod((directory_ + "/ca.key").c_str(), 0640), 0);
  ExpectUnusable("ca.key", "mode is 640");
  ASSERT_EQ(::chmod((directory_ + "/ca.key").c_str(), 0600), 0);
  ASSERT_EQ(::chmod(directory_.c_str(), 0755), 0);
  ExpectUnusable(directory_, "mode is 755");
}

TEST_F(TrustDirectory, IsRefusedWhenPairsDoNotFit) {
  Init();
  const std::string ca_key = Read("ca.key");
  Write("ca.key", Read("coordinator.key"));
  ExpectUnusable("ca.crt", "none of its certificates belongs to ca.key");
  Write("ca.key", ca_key);
  const std::string coordinator = Read("coordinator.crt");
  Write("coordinator.crt", Read("admin.crt"));
  ExpectUnusable("coordinator.crt", "does not belong to coordinator.key");
  Write("coordinator.crt", coordinator);
  const std::string coordinator_key = Read("coordinator.key");
  Write("coordinator.key", "x");
  ExpectUnusable("coordinator.key", "no private key");
  // A right key with a certificate of another role.
  Write("coordinator.key", Read("admin.key"));
  Write("coordinator.crt", Read("admin.crt"));
  ExpectUnusable("coordinator.crt", "");
  Write("coordinator.key", coordinator_key);
  Write("coordinator.crt", coordinator);
  const std::string ca = Read("ca.crt");
  Write("ca.crt", ca + coordinator);
  ExpectUnusable("ca.crt", "no CA's");
  Write("ca.crt", ca.substr(0, 100));
  ExpectUnusable("ca.crt", "no certificates");
  Write("ca.crt", ca);
  EXPECT_TRUE(LoadTrust(directory_, kNow).ok());
}

TEST_F(TrustDirectory, FindsTheSigningCaInABundle) {
  const Trust made = Init();
  const PrivateKey other = PrivateKey::Generate();
  const auto old = MakeCa(other, made.cluster_id, kNow, kNow + kCaLife);
  ASSERT_TRUE(old.ok());
  Write("ca.crt", old->ToPem() + Read("ca.crt"));
  const absl::StatusOr<Trust> loaded = LoadTrust(directory_, kNow);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->ca().Fingerprint(), made.ca().Fingerprint());
  EXPECT_EQ(loaded->ca_bundle.size(), 2u);
}

TEST_F(TrustDirectory, RenewsTheCoordinatorAlsoWhenItIsOver) {
  Init();
  const WallTime later = kNow + kCertificateLife + std::chrono::hours(1);
  ExpectUnusable("coordinator.crt", FormatUtc(later), later);
  ASSERT_TRUE(RenewCoordinatorCertificate(directory_, later).ok());
  const absl::StatusOr<Trust> loaded = LoadTrust(directory_, later);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(loaded->coordinator.dns_sans(), ElementsAre("head"));
  EXPECT_FALSE(NeedsRenewal(loaded->coordinator, later));
  EXPECT_TRUE(NeedsRenewal(loaded->coordinator, later + kCertificateLife * 3 / 4));
}

}  // namespace
}  // namespace muster
