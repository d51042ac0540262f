#include "common/doctor/machine_checks.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "common/base/utc.h"
#include "common/crypto/issuer.h"
#include "common/trust/renewal.h"
#include "tests/testing/temp_folder.h"

namespace muster {
namespace {

using std::chrono::hours;
using ::testing::HasSubstr;

const WallTime kNow{std::chrono::seconds(1'800'000'000)};

TEST(CheckOwnDirectory, WantsAFolderThatIsNobodyElses) {
  const TempFolder folder;
  const std::string path = folder.File("state");
  EXPECT_EQ(CheckOwnDirectory("state", path).verdict, Verdict::kFail);
  ASSERT_EQ(::mkdir(path.c_str(), 0700), 0);
  EXPECT_EQ(CheckOwnDirectory("state", path).verdict, Verdict::kOk);
  ASSERT_EQ(::chmod(path.c_str(), 0750), 0);
  const Finding open = CheckOwnDirectory("state", path);
  EXPECT_EQ(open.verdict, Verdict::kFail);
  EXPECT_THAT(open.text, HasSubstr("750"));
  EXPECT_THAT(open.fix, HasSubstr("chmod 700"));
}

TEST(CheckDiskSpace, TellsLittleFromNone) {
  const TempFolder folder;
  EXPECT_EQ(CheckDiskSpace(folder.path(), 0).verdict, Verdict::kOk);
  EXPECT_EQ(CheckDiskSpace(folder.path(), ~uint64_t{0}).verdict, Verdict::kFail);
  EXPECT_EQ(CheckDiskSpace(folder.File("gone"), 0).verdict, Verdict::kFail);
}

TEST(CheckDates, SaysWhatTheClocksSayAndWhatToDo) {
  const std::string cluster = NewClusterId();
  const PrivateKey ca_key = PrivateKey::Generate();
  const auto ca = MakeCa(ca_key, cluster, kNow - kBackdate, kNow + hours(9999));
  const Certificate certificate = *Issue(*ca, ca_key, ca_key.public_key(),
                                         {.identity = {cluster, IdentityKind::kAgent, "node-1"},
                                          .client = true,
                                          .not_before = kNow - kBackdate,
                                          .not_after = kNow + hours(100)});
  const auto at = [&](hours since) { return CheckDates("certificate", certificate, kNow + since); };
  EXPECT_EQ(at(hours(1)).verdict, Verdict::kOk);
  EXPECT_EQ(at(hours(79)).verdict, Verdict::kOk);
  EXPECT_EQ(at(hours(81)).verdict, Verdict::kWarn) << "an agent that runs has renewed it by then";
  EXPECT_THAT(at(hours(81)).text, HasSubstr("left: 19 hours"));
  EXPECT_EQ(at(hours(101)).verdict, Verdict::kWarn);
  EXPECT_THAT(at(hours(101)).fix, HasSubstr("by itself"));
  EXPECT_EQ(at(hours(101) + kRejoinLimit).verdict, Verdict::kFail);
  const Finding early = at(hours(-2));
  EXPECT_EQ(early.verdict, Verdict::kFail);
  EXPECT_THAT(early.text,
              testing::AllOf(HasSubstr(FormatUtc(kNow - hours(2))), HasSubstr(FormatUtc(kNow))));
}

}  // namespace
}  // namespace muster
