// RankLog on a real file: quota, limits and cut frames.

#include "agent/shim/rank_log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "common/io/unique_fd.h"
#include "tests/process/rank_probe/seeded_bytes.h"
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

  // Writes `bytes`, cut into frames of `frame_bytes`.
  void WriteAll(std::string_view bytes, size_t frame_bytes) {
    for (; !bytes.empty(); bytes.remove_prefix(std::min(frame_bytes, bytes.size()))) {
      Write(FrameKind::kStdout, bytes.substr(0, frame_bytes));
    }
  }
  std::string FileBytes(uint64_t offset, uint64_t most) const {
    std::ifstream file(path_);
    file.seekg(static_cast<std::streamoff>(offset));
    std::string bytes(most, '\0');
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    bytes.resize(static_cast<size_t>(file.gcount()));
    return bytes;
  }
  // What is kept of `written` is its beginning, `prefix` bytes at least, and its end, `suffix`
  // bytes at least; the rest is counted.
  void ExpectFirstAndNewest(const std::string& written, size_t prefix, size_t suffix) {
    const DecodedLog log = ReadLogFile(path_);
    EXPECT_FALSE(log.corrupt);
    EXPECT_EQ(log.end, (FrameEnd{written.size(), log_.dropped_bytes()}));
    EXPECT_EQ(log.gaps, (FrameGap{log_.dropped_bytes(), 0}));
    EXPECT_EQ(log.gap_count, 0);
    ASSERT_EQ(log.stdout_bytes.size() + log_.dropped_bytes(), written.size());
    EXPECT_GE(log.before_last_hole, prefix);
    EXPECT_GE(log.stdout_bytes.size() - log.before_last_hole, suffix);
    EXPECT_TRUE(log.stdout_bytes ==
                written.substr(0, log.before_last_hole) +
                    written.substr(log.before_last_hole + log_.dropped_bytes()));
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
  EXPECT_EQ(log_.written_bytes(), 205u);
  if (log.stdout_bytes.empty()) {
    // In memory, room is not even reserved beyond the limit, so that nothing is begun.
    EXPECT_EQ(log.end, (FrameEnd{205, 205}));
    EXPECT_EQ(log_.dropped_bytes(), 205u);
  } else {
    EXPECT_EQ(log.stdout_bytes, "first");
    EXPECT_FALSE(log.end.has_value());
    EXPECT_GT(log.cut_bytes, 0u);
    EXPECT_EQ(log_.dropped_bytes(), 200u);
  }
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

TEST_F(RankLogFile, TheQuotaKeepsTheFirstAndTheNewestOutput) {
  constexpr uint64_t kQuota = 1 << 20;
  log_.Begin(path_, kQuota, UINT64_MAX);
  EXPECT_EQ(log_.fixed_bytes(), kQuota / 2);
  const std::string written = SeededString(1, 5'000'000);
  WriteAll(written.substr(0, 1'000'000), 10'000);
  EXPECT_EQ(log_.dropped_bytes(), 0u);
  const std::string fixed = FileBytes(0, log_.fixed_bytes());
  WriteAll(written.substr(1'000'000), 10'000);
  log_.Close(2);
  ExpectFirstAndNewest(written, kQuota / 2 - 10'000, kQuota / 2 - 100'000);
  EXPECT_EQ(FileBytes(0, fixed.size()), fixed);
  EXPECT_THAT(log_.drop_reason(), ::testing::HasSubstr("quota of 1048576 bytes"));
  struct stat info = {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_GT(info.st_size, 5'000'000);
  EXPECT_LT(info.st_blocks * 512, 1'600'000) << "holes give their blocks back, but for one each";
}

TEST_F(RankLogFile, FramesOfTheLargestSizeBecomeHoles) {
  constexpr uint64_t kQuota = 4 << 20;
  log_.Begin(path_, kQuota, UINT64_MAX);
  const std::string written = SeededString(1, 10 * kMaxFramePayloadBytes);
  WriteAll(written, kMaxFramePayloadBytes);
  log_.Close(2);
  EXPECT_EQ(log_.dropped_bytes(), 7 * kMaxFramePayloadBytes);
  ExpectFirstAndNewest(written, 2 * kMaxFramePayloadBytes, kMaxFramePayloadBytes);
  EXPECT_EQ(ReadLogFile(path_).hole_count, 7);
}

TEST_F(RankLogFile, SmallFramesBecomeHolesTogether) {
  log_.Begin(path_, 100'000, UINT64_MAX);
  // 25 bytes each.
  const std::string written = SeededString(1, 20'000);
  WriteAll(written, 1);
  log_.Close(2);
  ExpectFirstAndNewest(written, 2000, 1500);
}

TEST_F(RankLogFile, AHoleTakesInTheGapsBetweenItsFrames) {
  log_.Begin(path_, 10'000, UINT64_MAX);
  Write(FrameKind::kStdout, std::string(5000, 'a'));
  // Fits nowhere: a gap.
  Write(FrameKind::kStderr, std::string(10'000, 'b'));
  EXPECT_EQ(log_.dropped_bytes(), 10'000u);
  Write(FrameKind::kStdout, std::string(200, 'c'));
  EXPECT_EQ(ReadLogFile(path_).gap_count, 1);
  for (int i = 0; i < 50; ++i) Write(FrameKind::kStdout, std::string(200, 'c'));
  log_.Close(2);
  const DecodedLog log = ReadLogFile(path_);
  EXPECT_EQ(log.gap_count, 0);
  EXPECT_EQ(log.before_last_hole, 5000u);
  EXPECT_GT(log.stdout_bytes.size(), 7000u);
  EXPECT_EQ(log.stdout_bytes.size() + log.gaps.stdout_bytes, 15'200u);
  EXPECT_EQ(log.gaps, (FrameGap{log_.dropped_bytes() - 10'000, 10'000}));
  EXPECT_EQ(log.end, (FrameEnd{25'200, log_.dropped_bytes()}));
}

TEST_F(RankLogFile, AtTheFileSizeLimitNothingOldIsDroppedForNothing) {
  log_.Begin(path_, 100'000, 150'000);
  WriteAll(SeededString(1, 300'000), 1000);
  log_.Close(2);
  const DecodedLog log = ReadLogFile(path_);
  EXPECT_FALSE(log.corrupt);
  EXPECT_EQ(log.end, (FrameEnd{300'000, log_.dropped_bytes()}));
  EXPECT_EQ(log.stdout_bytes.size() + log.gaps.stdout_bytes, 300'000u);
  EXPECT_GT(log.stdout_bytes.size(), 80'000u);
}

// The file as the agent ships it: what is fixed is copied, then committed, at random moments.
TEST_F(RankLogFile, WhatIsShippedWhileHolesAreMadeIsWhole) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const uint64_t quota = uint64_t{200'000} << (random() % 5);
    path_ = folder_.path() + "/log-" + std::to_string(seed);
    RankLog log;
    log.Begin(path_, quota, UINT64_MAX);
    std::string shipped;
    std::vector<std::string> written;
    uint64_t total = 0;
    const auto ship = [&](uint64_t end, uint64_t most) {
      const uint64_t there = std::min(end, log.size_bytes());
      if (there > shipped.size()) {
        shipped += FileBytes(shipped.size(), std::min<uint64_t>(most, there - shipped.size()));
      }
    };
    for (int i = 0; i < 600; ++i) {
      std::string bytes = std::to_string(i) + ":" + std::string(1 + random() % 30'000, 'x');
      if (random() % 4 == 0) bytes.resize(6);
      total += bytes.size();
      now_ += std::chrono::seconds(1);
      log.Write(random() % 3 == 0 ? FrameKind::kStderr : FrameKind::kStdout, bytes, i + 1, now_);
      written.push_back(std::move(bytes));
      // Away for a while, then a little or a lot.
      if ((i / 100) % 2 == 0 || random() % 4 != 0) continue;
      ship(log.fixed_bytes(), random() % 200'000);
      log.Commit(shipped.size());
      const UniqueFd file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
      EXPECT_LE(::lseek(file.get(), 0, SEEK_DATA), static_cast<off_t>(shipped.size()))
          << "nothing that is not stored looks as if it was given up";
    }
    log.Close(1000);
    ship(log.size_bytes(), UINT64_MAX);

    FrameReader reader;
    reader.Feed(shipped);
    uint64_t kept = 0;
    uint64_t dropped = 0;
    uint64_t holes = 0;
    int64_t last = 0;
    std::optional<FrameEnd> end;
    while (const auto frame = reader.Next()) {
      EXPECT_GE(frame->time_ns, last);
      if (const auto gap = DroppedBy(*frame)) {
        dropped += gap->stdout_bytes + gap->stderr_bytes;
        holes += frame->kind == FrameKind::kHole ? 1 : 0;
      } else if (frame->kind == FrameKind::kEnd) {
        end = DecodeFrameEnd(frame->payload);
      } else {
        EXPECT_GT(frame->time_ns, last);
        EXPECT_TRUE(frame->payload == written[static_cast<size_t>(frame->time_ns) - 1]);
        kept += frame->payload.size();
      }
      last = frame->time_ns;
    }
    EXPECT_FALSE(reader.corrupt()) << "seed " << seed << " at " << reader.offset();
    EXPECT_EQ(reader.partial_bytes(), 0u);
    EXPECT_EQ(end, (FrameEnd{total, dropped})) << "seed " << seed;
    EXPECT_EQ(kept + dropped, total);
    EXPECT_EQ(log.dropped_bytes(), dropped);
    if (quota < 1'000'000) {
      EXPECT_GT(holes, 0u);
    }
  }
}

TEST_F(RankLogFile, AFullDiskKeepsTheFirstAndTheNewestOutput) {
  const std::string disk = folder_.path() + "/disk";
  std::filesystem::create_directory(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=2m") != 0) {
    GTEST_SKIP() << "a small file system can only be mounted as root";
  }
  path_ = disk + "/log";
  constexpr uint64_t kQuota = 2'500'000;
  log_.Begin(path_, kQuota, UINT64_MAX);
  const std::string written = SeededString(1, 8'000'000);
  WriteAll(written, 50'000);
  log_.Close(2);
  ExpectFirstAndNewest(written, kQuota / 2 - 50'000, 300'000);
  EXPECT_THAT(log_.drop_reason(), ::testing::HasSubstr("ENOSPC"));
  EXPECT_EQ(::umount2(disk.c_str(), MNT_DETACH), 0);
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
