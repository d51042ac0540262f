#include "common/audit/audit_trail.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <thread>

#include "common/doctor/audit_check.h"
#include "tests/testing/temp_folder.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

class AuditTrailTest : public testing::Test {
 protected:
  std::string Read() {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  const SystemClock clock_;
  TempFolder folder_;
  const std::string path_ = folder_.File("audit.jsonl");
};

TEST_F(AuditTrailTest, WritesInOrderWhatWasRecorded) {
  {
    AuditTrail trail(path_, clock_);
    for (int i = 0; i < 20; ++i) trail.Record({.event = "launch", .object = std::to_string(i)});
  }
  const absl::StatusOr<AuditReport> report = VerifyAudit(path_);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->lines, 20);
  EXPECT_LT(Read().find("\"3\""), Read().find("\"17\""));
  EXPECT_EQ(CheckAudit(path_).verdict, Verdict::kOk);
}

TEST_F(AuditTrailTest, MakesNoFileBeforeThereIsSomethingToTell) {
  { AuditTrail trail(path_, clock_); }
  EXPECT_NE(::access(path_.c_str(), F_OK), 0);
  EXPECT_EQ(CheckAudit(path_).verdict, Verdict::kOk);
}

TEST_F(AuditTrailTest, PutsOnRecordWhatCouldNotBeWritten) {
  // Something is in the way of the file.
  ASSERT_EQ(::mkdir(path_.c_str(), 0700), 0);
  AuditTrail trail(path_, clock_);
  trail.Record({.event = "launch", .object = "1"});
  trail.Record({.event = "launch", .object = "2"});
  // paces: the worker is through when both are counted.
  while (trail.lost() < 2) std::this_thread::yield();
  ASSERT_EQ(::rmdir(path_.c_str()), 0);
  trail.Record({.event = "launch", .object = "3"});
  while (trail.lost() > 0) std::this_thread::yield();
  while (Read().find("\"3\"") == std::string::npos) std::this_thread::yield();
  EXPECT_THAT(Read(), HasSubstr("2 events before this one could not be written"));
  EXPECT_EQ(VerifyAudit(path_)->lost, 1);
  const Finding finding = CheckAudit(path_);
  EXPECT_EQ(finding.verdict, Verdict::kWarn);
  EXPECT_THAT(finding.text, HasSubstr("could not be written"));
}

}  // namespace
}  // namespace muster
