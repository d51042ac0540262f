// RankLog on a real file: quota, limits and cut frames.

#include "agent/shim/rank_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "tests/process/shim/shim_client.h"

namespace muster::testing {
namespace {

using shim::RankLog;

class RankLogFile : public ::testing::Test {
 protected:
  // Time goes on by a second with every step, so that no attempt to write is put off.
  void Write(FrameKind stream, std::string_view bytes) {
    now_ += std::chrono::seconds(1);
    log_.Write(stream, bytes, 1, now_);
  }

  // Runs `step` with a limit of file sizes that the log does not know of, as a full disk would be
  // met in the middle of a write.
  template <typename Step>
  void WithLimit(rlim_t bytes, Step step) {
    struct sigaction ignore = {};
    ignore.sa_handler = SIG_IGN;
    struct sigaction old_action = {};
    ::sigaction(SIGXFSZ, &ignore, &old_action);
    struct rlimit old_limit = {};
    ::getrlimit(RLIMIT_FSIZE, &old_limit);
    const struct rlimit limit = {bytes, old_limit.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    step();
    ::setrlimit(RLIMIT_FSIZE, &old_limit);
    ::sigaction(SIGXFSZ, &old_action, nullptr);
  }

  AttemptFolder folder_;
  std::string path_ = folder_.path() + "/log";
  std::chrono::steady_clock::time_point now_ = {};
  RankLog log_;
};

TEST_F(RankLogFile, ACutFrameIsCompletedAndTheFileNeverShrinks) {
  log_.Begin(path_, 0, UINT64_MAX);
  Write(FrameKind::kStdout, "first");
  WithLimit(100, [&] {
    Write(FrameKind::kStdout, std::string(200, 'a'));
    EXPECT_EQ(std::filesystem::file_size(path_), 100u);
    EXPECT_TRUE(log_.HasBacklog());
    Write(FrameKind::kStderr, "lost");
    EXPECT_EQ(std::filesystem::file_size(path_), 100u);
  });
  EXPECT_EQ(log_.dropped_bytes(), 4u);
  now_ += std::chrono::seconds(1);
  log_.Retry(1, now_);
  EXPECT_FALSE(log_.HasBacklog());
  Write(FrameKind::kStdout, "last");
  log_.Close(2);
  const DecodedLog log = ReadLogFile(path_);
  EXPECT_FALSE(log.corrupt);
  EXPECT_EQ(log.stdout_bytes, "first" + std::string(200, 'a') + "last");
  EXPECT_EQ(log.gaps, (FrameGap{0, 4}));
  EXPECT_EQ(log.end, (FrameEnd{213, 4}));
  EXPECT_EQ(log_.size_bytes(), std::filesystem::file_size(path_));
}

TEST_F(RankLogFile, AFrameThatStaysCutCountsAsDropped) {
  log_.Begin(path_, 0, UINT64_MAX);
  WithLimit(100, [&] {
    Write(FrameKind::kStdout, "first");
    Write(FrameKind::kStdout, std::string(200, 'a'));
    log_.Close(2);
  });
  const DecodedLog log = ReadLogFile(path_);
  EXPECT_EQ(log.stdout_bytes, "first");
  EXPECT_FALSE(log.end.has_value());
  EXPECT_GT(log.cut_bytes, 0u);
  EXPECT_EQ(log_.written_bytes(), 205u);
  EXPECT_EQ(log_.dropped_bytes(), 200u);
}

TEST_F(RankLogFile, AKnownLimitIsFilledUpAndLeavesRoomForTheEnd) {
  log_.Begin(path_, 0, 1000);
  for (int i = 0; i < 50; ++i) Write(FrameKind::kStdout, std::string(60, 'a'));
  log_.Close(2);
  const DecodedLog log = ReadLogFile(path_);
  EXPECT_FALSE(log.corrupt);
  EXPECT_LE(log_.size_bytes(), 1000u);
  EXPECT_GT(log_.size_bytes(), 960u);
  EXPECT_EQ(log.end, (FrameEnd{3000, log_.dropped_bytes()}));
  EXPECT_EQ(log.stdout_bytes.size() + log.gaps.stdout_bytes, 3000u);
}

TEST_F(RankLogFile, TheQuotaCountsWhatIsNotCommitted) {
  log_.Begin(path_, 1000, UINT64_MAX);
  Write(FrameKind::kStdout, std::string(900, 'a'));
  Write(FrameKind::kStderr, std::string(900, 'b'));
  EXPECT_EQ(log_.dropped_bytes(), 900u);
  log_.Commit(log_.size_bytes() + 5);
  Write(FrameKind::kStdout, std::string(900, 'c'));
  EXPECT_EQ(log_.dropped_bytes(), 900u);
  log_.Close(2);
  const DecodedLog log = ReadLogFile(path_);
  EXPECT_EQ(log.gaps, (FrameGap{0, 900}));
  EXPECT_EQ(log.stdout_bytes.size(), 1800u);
  EXPECT_EQ(log.end, (FrameEnd{2700, 900}));
}

TEST_F(RankLogFile, DoesNotWriteIntoAFileThatIsThere) {
  log_.Begin(path_, 0, UINT64_MAX);
  Write(FrameKind::kStdout, "first");
  RankLog second;
  second.Begin(path_, 0, UINT64_MAX);
  second.Write(FrameKind::kStdout, "second", 1, now_);
  EXPECT_EQ(second.dropped_bytes(), 6u);
  EXPECT_THAT(second.drop_reason(), ::testing::HasSubstr("EEXIST"));
  second.Close(2);
  log_.Close(2);
  EXPECT_EQ(ReadLogFile(path_).stdout_bytes, "first");
}

TEST_F(RankLogFile, NoOutputIsNoFile) {
  log_.Begin(path_, 0, UINT64_MAX);
  log_.Close(2);
  EXPECT_EQ(log_.size_bytes(), 0u);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(RankLogFile, WhatCameBeforeTheFileCouldBeMadeIsCounted) {
  const std::string folder = folder_.path() + "/later";
  log_.Begin(folder + "/log", 0, UINT64_MAX);
  Write(FrameKind::kStdout, "lost");
  std::filesystem::create_directory(folder);
  now_ += std::chrono::seconds(1);
  log_.Retry(1, now_);
  Write(FrameKind::kStdout, "kept");
  log_.Close(2);
  const DecodedLog log = ReadLogFile(folder + "/log");
  EXPECT_EQ(log.stdout_bytes, "kept");
  EXPECT_EQ(log.gaps, (FrameGap{4, 0}));
  EXPECT_EQ(log.end, (FrameEnd{8, 4}));
}

}  // namespace
}  // namespace muster::testing
