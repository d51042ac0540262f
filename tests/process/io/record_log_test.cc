#include "common/io/record_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "common/io/atomic_file.h"

namespace muster {
namespace {

class RecordLogFile : public ::testing::Test {
 protected:
  RecordLogFile() {
    std::string name = ::testing::TempDir() + "/muster-record-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    path_ = folder_ + "/log";
  }
  ~RecordLogFile() override { std::filesystem::remove_all(folder_); }

  std::vector<std::string> ReadAll(RecordLogEnd& end) const {
    std::vector<std::string> records;
    EXPECT_FALSE(ReadRecordLog(path_, end, [&](std::string_view payload) {
      records.emplace_back(payload);
      return true;
    }));
    return records;
  }

  std::string folder_;
  std::string path_;
};

TEST_F(RecordLogFile, ReturnsWhatWasAppendedAcrossReopening) {
  RecordLogEnd end;
  {
    RecordLogWriter writer;
    ASSERT_FALSE(writer.Open(path_, end));
    EXPECT_FALSE(writer.Preallocate(4096));
    ASSERT_FALSE(writer.Append("one"));
    ASSERT_FALSE(writer.Append(std::string(1'000'000, 'x')));
    EXPECT_FALSE(writer.Sync());
  }
  RecordLogWriter writer;
  std::vector<std::string> seen;
  ASSERT_FALSE(writer.Open(path_, end, [&](std::string_view payload) {
    seen.emplace_back(payload);
    return true;
  }));
  EXPECT_EQ(seen.size(), 2u);
  EXPECT_EQ(end.records, 2u);
  EXPECT_EQ(end.torn_bytes, 0u);
  ASSERT_FALSE(writer.Append("three"));
  EXPECT_EQ(ReadAll(end), (std::vector<std::string>{"one", std::string(1'000'000, 'x'), "three"}));
  EXPECT_EQ(end.valid_bytes, std::filesystem::file_size(path_));
  EXPECT_EQ(writer.size_bytes(), end.valid_bytes);
}

TEST_F(RecordLogFile, TellsATornEndAtEveryLengthAndTheWriterCutsIt) {
  std::string bytes;
  AppendRecord(bytes, "first");
  const size_t whole = bytes.size();
  AppendRecord(bytes, "second record");
  for (size_t size = whole + 1; size < bytes.size(); ++size) {
    ASSERT_FALSE(WriteFileAtomically(path_, std::string_view(bytes).substr(0, size), 0600,
                                     Durability::kProcessCrash));
    RecordLogEnd end;
    EXPECT_EQ(ReadAll(end), (std::vector<std::string>{"first"}));
    EXPECT_EQ(end.valid_bytes, whole);
    EXPECT_EQ(end.torn_bytes, size - whole);
    RecordLogWriter writer;
    ASSERT_FALSE(writer.Open(path_, end));
    EXPECT_EQ(end.torn_bytes, size - whole);
    ASSERT_FALSE(writer.Append("again"));
    EXPECT_EQ(ReadAll(end), (std::vector<std::string>{"first", "again"}));
    EXPECT_EQ(end.torn_bytes, 0u);
  }
}

TEST_F(RecordLogFile, StopsAtDamageInTheMiddleAndTellsHowMuchIsBehind) {
  std::string bytes;
  for (int i = 0; i < 3; ++i) AppendRecord(bytes, "record " + std::to_string(i));
  bytes[bytes.size() / 3 + kRecordHeaderBytes] ^= 1;
  ASSERT_FALSE(WriteFileAtomically(path_, bytes, 0600, Durability::kProcessCrash));
  RecordLogEnd end;
  EXPECT_EQ(ReadAll(end).size(), 1u);
  EXPECT_EQ(end.torn_bytes, bytes.size() / 3 * 2);
}

TEST_F(RecordLogFile, ReadsOnFromAnOffset) {
  RecordLogWriter writer;
  RecordLogEnd end;
  ASSERT_FALSE(writer.Open(path_, end));
  ASSERT_FALSE(writer.Append("one"));
  const uint64_t offset = writer.size_bytes();
  ASSERT_FALSE(writer.Append("two"));
  std::vector<std::string> seen;
  ASSERT_FALSE(ReadRecordLog(writer.fd(), offset, end, [&](std::string_view payload) {
    seen.emplace_back(payload);
    return true;
  }));
  EXPECT_EQ(seen, (std::vector<std::string>{"two"}));
  EXPECT_EQ(end.valid_bytes, writer.size_bytes());
}

TEST_F(RecordLogFile, AFailedAppendLeavesTheLogAsItWas) {
  RecordLogWriter writer;
  RecordLogEnd end;
  ASSERT_FALSE(writer.Open(path_, end));
  ASSERT_FALSE(writer.Append("kept"));
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  struct sigaction old_action = {};
  ::sigaction(SIGXFSZ, &ignore, &old_action);
  struct rlimit old_limit = {};
  ::getrlimit(RLIMIT_FSIZE, &old_limit);
  const struct rlimit limit = {100, old_limit.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &limit);
  const std::error_code error = writer.Append(std::string(200, 'x'));
  ::setrlimit(RLIMIT_FSIZE, &old_limit);
  ::sigaction(SIGXFSZ, &old_action, nullptr);
  EXPECT_EQ(error.value(), EFBIG);
  EXPECT_EQ(ReadAll(end), (std::vector<std::string>{"kept"}));
  EXPECT_EQ(end.torn_bytes, 0u);
  ASSERT_FALSE(writer.Append("more"));
  EXPECT_EQ(ReadAll(end), (std::vector<std::string>{"kept", "more"}));
}

TEST_F(RecordLogFile, AMissingFileIsAnErrorOfTheReaderOnly) {
  RecordLogEnd end;
  EXPECT_EQ(ReadRecordLog(path_, end, {}).value(), ENOENT);
}

TEST_F(RecordLogFile, AtomicFilesAreReplacedWholeAndLeaveNothingBehind) {
  ASSERT_FALSE(WriteFileAtomically(path_, "old", 0600, Durability::kPowerLoss));
  ASSERT_FALSE(WriteFileAtomically(path_, "newer", 0640, Durability::kPowerLoss));
  std::string bytes;
  ASSERT_FALSE(ReadFile(path_, bytes));
  EXPECT_EQ(bytes, "newer");
  EXPECT_EQ(ReadFile(path_, bytes, 4).value(), EFBIG);
  EXPECT_EQ(static_cast<int>(std::filesystem::status(path_).permissions()), 0640);
  EXPECT_TRUE(WriteFileAtomically(folder_ + "/no/such/folder", "x", 0600, Durability::kPowerLoss));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

}  // namespace
}  // namespace muster
