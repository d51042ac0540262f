#include "coordinator/trust/audit.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <thread>

#include "common/base/annotate.h"
#include "tests/testing/temp_folder.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

const WallTime kNow{std::chrono::seconds(1'800'000'000)};

class Audit : public testing::Test {
 protected:
  void Append(const std::string& object) {
    const auto log = AuditLog::Open(path_);
    ASSERT_TRUE(log.ok()) << log.status();
    const absl::Status told =
        (*log)->Append({.event = "join", .decision = "allowed", .object = object}, kNow);
    ASSERT_TRUE(told.ok()) << told;
  }
  std::string Read() {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void Write(const std::string& bytes) { std::ofstream(path_, std::ios::binary) << bytes; }
  AuditReport Verified() {
    const absl::StatusOr<AuditReport> report = VerifyAudit(path_);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? *report : AuditReport{};
  }

  TempFolder folder_;
  std::string path_ = folder_.File("audit.jsonl");
};

TEST_F(Audit, ChainsItsLines) {
  for (const char* object : {"a", "b", "c"}) Append(object);
  EXPECT_EQ(Verified().lines, 3);
  EXPECT_EQ(Verified().torn_bytes, 0);
  EXPECT_THAT(Read(), testing::StartsWith("{\"prev\":\"" + std::string(64, '0') +
                                          "\",\"time\":\"2027-01-15T08:00:00Z\",\"event\":\"join\","
                                          "\"decision\":\"allowed\",\"object\":\"a\"}\n"));
  struct stat info = {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
}

TEST_F(Audit, FindsEveryChange) {
  for (const char* object : {"a", "b", "c"}) Append(object);
  const std::string good = Read();
  const size_t second = good.find('\n') + 1;
  const size_t third = good.find('\n', second) + 1;
  std::string changed = good;
  changed[good.find("\"b\"") + 1] = 'x';
  const std::pair<std::string, std::string> cases[] = {
      {changed, ":3:"},
      {good.substr(second), ":1:"},
      {good.substr(0, second) + good.substr(third), ":2:"},
      {good.substr(0, second) + good.substr(0, second) + good.substr(second), ":2:"},
      {good.substr(0, second) + "\n" + good.substr(second), ":2: this is no line"},
      {good.substr(0, third - 2) + "\n" + good.substr(third), ":2: this is no line"}};
  for (const auto& [bytes, where] : cases) {
    Write(bytes);
    const absl::Status status = VerifyAudit(path_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << bytes;
    EXPECT_THAT(std::string(MessageOf(status)), HasSubstr(where)) << bytes;
  }
}

TEST_F(Audit, GoesOnAfterACrashAtEveryByte) {
  Append("a");
  const std::string one = Read();
  Append("b");
  const std::string two = Read();
  for (size_t size = one.size() + 1; size < two.size(); ++size) {
    Write(two.substr(0, size));
    EXPECT_EQ(Verified().torn_bytes, static_cast<int64_t>(size - one.size()));
    Append("c");
    EXPECT_EQ(Verified().lines, 3);
    EXPECT_EQ(Verified().torn_bytes, 0);
    EXPECT_THAT(Read(), HasSubstr(fmt::format("removed {} bytes", size - one.size())));
  }
}

TEST_F(Audit, SeveralWritersMakeOneChain) {
  std::vector<std::thread> writers;
  for (int i = 0; i < 3; ++i) {
    writers.emplace_back([&] {
      for (int k = 0; k < 10; ++k) Append("x");
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(Verified().lines, 30);
}

TEST_F(Audit, KeepsALineALine) {
  Append("a\n\"b\"\\\xff\xe2\x80\xa8" + std::string(100'000, 'x'));
  Append("c");
  EXPECT_EQ(Verified().lines, 2);
  EXPECT_LT(Read().size(), 8192u);
}

TEST(AuditOnAFullDisk, TellsThatItFailed) {
  const auto log = AuditLog::Open("/dev/full");
  ASSERT_TRUE(log.ok()) << log.status();
  const absl::Status told = (*log)->Append({.event = "join"}, kNow);
  EXPECT_EQ(told.code(), absl::StatusCode::kResourceExhausted) << told;
}

TEST_F(Audit, SaysThatThereIsNone) {
  EXPECT_EQ(VerifyAudit(path_).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace muster
