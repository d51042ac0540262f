// Certificates from making to trusting, without files.
#include "common/crypto/certificate.h"

#include <gmock/gmock.h>

#include "common/base/annotate.h"
#include "common/base/utc.h"
#include "common/crypto/csr.h"
#include "common/crypto/issuer.h"
#include "common/crypto/verify.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using std::chrono::hours;

const std::string kCluster = "01234567-89ab-cdef-0123-456789abcdef";
const WallTime kNow{std::chrono::seconds(1'800'000'000)};

struct Authority {
  PrivateKey key = PrivateKey::Generate();
  Certificate certificate = *MakeCa(key, kCluster, kNow - kBackdate, kNow + hours(24 * 3650));
};

CertificateProfile Profile(IdentityKind kind, const std::string& name) {
  return {.identity = {kCluster, kind, name},
          .client = true,
          .not_before = kNow - kBackdate,
          .not_after = kNow + hours(24)};
}

TEST(PrivateKey, SurvivesPem) {
  const PrivateKey key = PrivateKey::Generate();
  const absl::StatusOr<PrivateKey> again = PrivateKey::FromPem(key.ToPem());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->SpkiSha256(), key.SpkiSha256());
  EXPECT_EQ(again->ToPem(), key.ToPem());
  EXPECT_NE(PrivateKey::Generate().SpkiSha256(), key.SpkiSha256());
}

TEST(PrivateKey, RefusesWhatIsNoKeyOfOurs) {
  // An Ed25519 key.
  const std::string other =
      "-----BEGIN PRIVATE KEY-----\n"
      "MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n"
      "-----END PRIVATE KEY-----\n";
  EXPECT_THAT(std::string(MessageOf(PrivateKey::FromPem(other).status())), HasSubstr("P-256"));
  std::string cut = PrivateKey::Generate().ToPem();
  cut.resize(cut.size() / 2);
  for (const std::string& pem : {std::string(), std::string("hello"), cut}) {
    EXPECT_EQ(PrivateKey::FromPem(pem).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(PrivateKey, RefusesOtherCurvesAndOtherWritings) {
  const std::string p384 =
      "-----BEGIN PRIVATE KEY-----\n"
      "MIG2AgEAMBAGByqGSM49AgEGBSuBBAAiBIGeMIGbAgEBBDD87kiCL9jlYsPrbZPn\n"
      "s5Qd5SMh7Qe9S5F6bysNVP9VN0WoJ+4oo7ltIUevqAS2ig+hZANiAATCZEPL117S\n"
      "RVogXl4+++6B56osAGbi5hXVPm1eTiJl7R9F9bGgkQhALXf0WaGN2V0LyhSzEJFk\n"
      "yfm5Vjtkz/M8AoE/xQXrnMqCwjODWfkRMrmr+EQD7trFK0TVZ5KImIE=\n"
      "-----END PRIVATE KEY-----\n";
  EXPECT_THAT(std::string(MessageOf(PrivateKey::FromPem(p384).status())), HasSubstr("P-256"));
  // P-256 by its parameters instead of its name.
  const std::string explicit_parameters =
      "-----BEGIN PRIVATE KEY-----\n"
      "MIIBeQIBADCCAQMGByqGSM49AgEwgfcCAQEwLAYHKoZIzj0BAQIhAP////8AAAAB\n"
      "AAAAAAAAAAAAAAAA////////////////MFsEIP////8AAAABAAAAAAAAAAAAAAAA\n"
      "///////////////8BCBaxjXYqjqT57PrvVV2mIa8ZR0GsMxTsPY7zjw+J9JgSwMV\n"
      "AMSdNgiG5wSTamZ44ROdJreBn36QBEEEaxfR8uEsQkf4vOblY6RA8ncDfYEt6zOg\n"
      "9KE5RdiYwpZP40Li/hp/m47n60p8D54WK84zV2sxXs7LtkBoN79R9QIhAP////8A\n"
      "AAAA//////////+85vqtpxeehPO5ysL8YyVRAgEBBG0wawIBAQQg99TfxgwV/GUH\n"
      "UX8Up+9CRvyiIWQAt4A6DMHgK4itkzqhRANCAASgEv0jb75EhUoAGpVR1f1xc2iu\n"
      "bOyfIrh92LlC3bwbd8FPiXHlK8U4tfo5A/xDQUmsfFWMBTBpteXwzLseGwjf\n"
      "-----END PRIVATE KEY-----\n";
  EXPECT_THAT(std::string(MessageOf(PrivateKey::FromPem(explicit_parameters).status())),
              HasSubstr("usual form"));
}

TEST(Csr, ProvesTheKey) {
  const PrivateKey key = PrivateKey::Generate();
  const absl::StatusOr<PublicKey> parsed = ParseCsr(MakeCsr(key));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->SpkiSha256(), key.SpkiSha256());
}

TEST(Csr, RefusesEveryChangedByte) {
  const std::string csr = MakeCsr(PrivateKey::Generate());
  for (size_t i = 0; i < csr.size(); ++i) {
    std::string wrong = csr;
    wrong[i] = static_cast<char>(wrong[i] ^ 1);
    EXPECT_FALSE(ParseCsr(wrong).ok()) << i;
  }
  EXPECT_FALSE(ParseCsr(csr + '\0').ok());
  EXPECT_FALSE(ParseCsr({}).ok());
  EXPECT_FALSE(ParseCsr(std::string(kMaxCsrBytes + 1, 'x')).ok());
}

TEST(Issue, PutsTheProfileIntoTheCertificate) {
  const Authority ca;
  const PrivateKey key = PrivateKey::Generate();
  CertificateProfile profile = Profile(IdentityKind::kCoordinator, "");
  profile.server = true;
  profile.hosts = {"head.example", "192.0.2.1", "2001:db8::1"};
  const absl::StatusOr<Certificate> made = Issue(ca.certificate, ca.key, key.public_key(), profile);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_TRUE(made->Holds(key));
  EXPECT_FALSE(made->Holds(ca.key));
  EXPECT_FALSE(made->is_ca());
  EXPECT_EQ(made->not_before(), profile.not_before);
  EXPECT_EQ(made->not_after(), profile.not_after);
  EXPECT_THAT(made->uri_sans(), ElementsAre("spiffe://" + kCluster + "/coordinator"));
  EXPECT_THAT(made->dns_sans(), ElementsAre("head.example"));
  EXPECT_EQ(made->serial().size(), 32u);
  const absl::StatusOr<Identity> identity = IdentityOf(*made);
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_EQ(*identity, profile.identity);
  for (const CertificateUse use :
       {CertificateUse::kAny, CertificateUse::kClient, CertificateUse::kServer}) {
    const absl::Status status = VerifyCertificate(*made, {ca.certificate}, use, kNow);
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(Issue, NumbersEveryCertificateAnew) {
  const Authority ca;
  const CertificateProfile profile = Profile(IdentityKind::kAgent, "a");
  const auto first = Issue(ca.certificate, ca.key, ca.key.public_key(), profile);
  const auto second = Issue(ca.certificate, ca.key, ca.key.public_key(), profile);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first->serial(), second->serial());
  EXPECT_NE(first->Fingerprint(), second->Fingerprint());
}

TEST(Issue, NeverLivesLongerThanTheCa) {
  const Authority ca;
  CertificateProfile profile = Profile(IdentityKind::kAgent, "a");
  profile.not_after = kNow + hours(24 * 36500);
  const auto made = Issue(ca.certificate, ca.key, ca.key.public_key(), profile);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->not_after(), ca.certificate.not_after());
}

TEST(Issue, RefusesBadProfiles) {
  const Authority ca;
  std::vector<CertificateProfile> bad(6, Profile(IdentityKind::kAgent, "a"));
  bad[0].identity.name = "a/b";
  bad[1].identity.cluster_id = "x";
  bad[2].client = false;
  bad[3].not_after = bad[3].not_before;
  bad[4].hosts = {"a,URI:spiffe://x"};
  bad[5].hosts = {std::string("a\0b", 3)};
  for (const CertificateProfile& profile : bad) {
    EXPECT_EQ(Issue(ca.certificate, ca.key, ca.key.public_key(), profile).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(Issue, RefusesACaThatIsNone) {
  const Authority ca;
  const PrivateKey key = PrivateKey::Generate();
  const CertificateProfile profile = Profile(IdentityKind::kAgent, "a");
  EXPECT_EQ(Issue(ca.certificate, key, key.public_key(), profile).status().code(),
            absl::StatusCode::kFailedPrecondition);
  const auto leaf = Issue(ca.certificate, ca.key, key.public_key(), profile);
  ASSERT_TRUE(leaf.ok());
  EXPECT_EQ(Issue(*leaf, key, key.public_key(), profile).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(Certificate, SurvivesPemAndDer) {
  const Authority ca;
  EXPECT_TRUE(ca.certificate.is_ca());
  const auto pem = Certificate::FromPem(ca.certificate.ToPem());
  const auto der = Certificate::FromDer(ca.certificate.ToDer());
  ASSERT_TRUE(pem.ok() && der.ok()) << pem.status() << der.status();
  EXPECT_EQ(pem->Fingerprint(), ca.certificate.Fingerprint());
  EXPECT_EQ(der->Fingerprint(), ca.certificate.Fingerprint());
  EXPECT_EQ(der->SpkiSha256(), ca.key.SpkiSha256());
  EXPECT_FALSE(Certificate::FromDer(ca.certificate.ToDer() + "x").ok());
}

TEST(Certificate, ReadsBundlesAndRefusesDamagedOnes) {
  const Authority a;
  const Authority b;
  const std::string both = ToPem({a.certificate, b.certificate});
  const auto bundle = Certificate::ParseBundle(both);
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  EXPECT_EQ(bundle->size(), 2u);
  EXPECT_FALSE(Certificate::FromPem(both).ok());
  std::string many;
  for (size_t i = 0; i <= Certificate::kMaxBundle; ++i) many += a.certificate.ToPem();
  for (const std::string& pem :
       {std::string(), std::string("x"), both.substr(0, both.size() - 40), many}) {
    EXPECT_EQ(Certificate::ParseBundle(pem).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(IdentityOf, RefusesACa) {
  const Authority ca;
  EXPECT_EQ(IdentityOf(ca.certificate).status().code(), absl::StatusCode::kPermissionDenied);
}

TEST(VerifyCertificate, RefusesAnotherCaWithTheSameName) {
  const Authority ca;
  const Authority impostor;
  const auto made = Issue(impostor.certificate, impostor.key, impostor.key.public_key(),
                          Profile(IdentityKind::kAgent, "a"));
  ASSERT_TRUE(made.ok());
  const absl::Status status =
      VerifyCertificate(*made, {ca.certificate}, CertificateUse::kClient, kNow);
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(VerifyCertificate(*made, {}, CertificateUse::kAny, kNow).code(),
            absl::StatusCode::kPermissionDenied);
  // During a change of the CA both are trusted.
  EXPECT_TRUE(VerifyCertificate(*made, {ca.certificate, impostor.certificate},
                                CertificateUse::kClient, kNow)
                  .ok());
}

TEST(VerifyCertificate, RefusesAnotherUse) {
  const Authority ca;
  const auto made =
      Issue(ca.certificate, ca.key, ca.key.public_key(), Profile(IdentityKind::kAgent, "a"));
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(VerifyCertificate(*made, {ca.certificate}, CertificateUse::kServer, kNow).code(),
            absl::StatusCode::kPermissionDenied);
}

TEST(VerifyCertificate, TellsBothTimes) {
  const Authority ca;
  const auto made =
      Issue(ca.certificate, ca.key, ca.key.public_key(), Profile(IdentityKind::kAgent, "a"));
  ASSERT_TRUE(made.ok());
  const auto at = [&](WallTime now) {
    return VerifyCertificate(*made, {ca.certificate}, CertificateUse::kClient, now);
  };
  const WallTime early = kNow - hours(2);
  EXPECT_EQ(at(early).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(MessageOf(at(early))),
              testing::AllOf(HasSubstr("not yet valid"), HasSubstr(FormatUtc(early)),
                             HasSubstr(FormatUtc(kNow - kBackdate))));
  const WallTime late = kNow + hours(25);
  EXPECT_EQ(at(late).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(MessageOf(at(late))),
              testing::AllOf(HasSubstr("no longer valid"), HasSubstr(FormatUtc(late)),
                             HasSubstr(FormatUtc(kNow + hours(24)))));
  EXPECT_TRUE(VerifyCertificate(*made, {ca.certificate}, CertificateUse::kClient, {}).ok());
}

TEST(PrivateKeySign, IsVerifiedByItsOwnPublicKeyOnly) {
  const PrivateKey key = PrivateKey::Generate();
  const std::string signature = key.Sign("what was said");
  EXPECT_TRUE(key.public_key().Verifies("what was said", signature));
  EXPECT_FALSE(key.public_key().Verifies("what was not said", signature));
  EXPECT_FALSE(PrivateKey::Generate().public_key().Verifies("what was said", signature));
  EXPECT_FALSE(key.public_key().Verifies("what was said", ""));
  EXPECT_FALSE(key.public_key().Verifies("what was said", signature + "x"));
}

}  // namespace
}  // namespace muster
