#include "common/audit/audit_log.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
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

class AuditRotation : public Audit {
 protected:
  static constexpr AuditLimits kLimits{.file_bytes = 400, .kept_files = 2};
  static std::unique_ptr<AuditLog> OpenLog(const std::string& path) {
    return *AuditLog::Open(path, kLimits);
  }
  static void Tell(AuditLog& log, const std::string& object) {
    const absl::Status told = log.Append({.event = "join", .object = object}, kNow);
    ASSERT_TRUE(told.ok()) << told;
  }
  std::string ReadFrom(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  absl::StatusOr<AuditReport> Verify() { return VerifyAudit(path_, kLimits); }
};

TEST_F(AuditRotation, CarriesTheChainFromFileToFile) {
  const std::unique_ptr<AuditLog> log = OpenLog(path_);
  for (int i = 0; i < 7; ++i) Tell(*log, std::to_string(i));
  const absl::StatusOr<AuditReport> report = Verify();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->lines, 7);
  EXPECT_EQ(report->files, 3);
  EXPECT_LT(Read().size(), 800u);
  // Another process goes on with the same chain, a new one, too.
  Tell(*OpenLog(path_), "another");
  Tell(*log, "the first again");
  EXPECT_TRUE(Verify().ok()) << Verify().status();
}

TEST_F(AuditRotation, KeepsSoManyFilesOnly) {
  const std::unique_ptr<AuditLog> log = OpenLog(path_);
  for (int i = 0; i < 30; ++i) Tell(*log, std::to_string(i));
  const absl::StatusOr<AuditReport> report = Verify();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->files, 3);
  EXPECT_LT(report->lines, 30);
  EXPECT_THAT(Read(), HasSubstr("\"29\""));
  EXPECT_TRUE(ReadFrom(path_ + ".3").empty());
}

TEST_F(AuditRotation, FindsAChangeInAnyFile) {
  const std::unique_ptr<AuditLog> log = OpenLog(path_);
  for (int i = 0; i < 7; ++i) Tell(*log, std::to_string(i));
  for (const std::string& file : {path_ + ".2", path_ + ".1", path_}) {
    const std::string good = ReadFrom(file);
    std::string changed = good;
    changed[changed.find("\"join\"") + 1] = 'x';
    std::ofstream(file, std::ios::binary) << changed;
    // A change of the very last line is only seen by who keeps its digest.
    if (file != path_ || good.find('\n') + 1 < good.size()) {
      EXPECT_EQ(Verify().status().code(), absl::StatusCode::kDataLoss) << file;
    }
    std::ofstream(file, std::ios::binary) << good;
  }
  // The oldest file is gone, although fewer are kept than could be.
  ASSERT_EQ(::unlink((path_ + ".2").c_str()), 0);
  EXPECT_EQ(Verify().status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(AuditRotation, GoesOnAfterACrashBetweenTwoFiles) {
  std::unique_ptr<AuditLog> log = OpenLog(path_);
  for (int i = 0; i < 3; ++i) Tell(*log, std::to_string(i));
  log.reset();
  ASSERT_EQ(::rename(path_.c_str(), (path_ + ".1").c_str()), 0);
  EXPECT_TRUE(Verify().ok()) << Verify().status();
  Tell(*OpenLog(path_), "after the crash");
  const absl::StatusOr<AuditReport> report = Verify();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->lines, 4);
}

TEST_F(AuditRotation, SeveralWritersMakeOneChain) {
  std::vector<std::thread> writers;
  for (int i = 0; i < 3; ++i) {
    writers.emplace_back([&] {
      const std::unique_ptr<AuditLog> log = OpenLog(path_);
      for (int k = 0; k < 20; ++k) Tell(*log, std::to_string(k));
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_TRUE(Verify().ok()) << Verify().status();
}

TEST_F(AuditRotation, IsNoChangeForWhoVerifiesMeanwhile) {
  Tell(*OpenLog(path_), "first");
  std::atomic<bool> done = false;
  std::thread writer([&] {
    const std::unique_ptr<AuditLog> log = OpenLog(path_);
    for (int i = 0; i < 500; ++i) Tell(*log, std::to_string(i));
    done = true;
  });
  while (!done) EXPECT_TRUE(Verify().ok()) << Verify().status();
  writer.join();
}

TEST_F(AuditRotation, GoesOnInTheSameFileWhereNoneCanBeMoved) {
  const std::unique_ptr<AuditLog> log = OpenLog(path_);
  Tell(*log, "0");
  // Something that cannot be replaced by a file is in the way.
  for (const char* folder : {".1", ".1/x", ".2", ".2/x"}) {
    ASSERT_EQ(::mkdir((path_ + folder).c_str(), 0700), 0);
  }
  for (int i = 1; i < 5; ++i) Tell(*log, std::to_string(i));
  for (const char* object : {"\"0\"", "\"4\""}) EXPECT_THAT(Read(), HasSubstr(object));
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
