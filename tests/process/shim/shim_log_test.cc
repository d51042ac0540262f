// Output of ranks through a real muster-shim: every byte is in the log, or counted.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/process/rank_probe/seeded_bytes.h"
#include "tests/process/shim/shim_client.h"

namespace muster::testing {
namespace {

class ShimLog : public ::testing::Test {
 protected:
  std::string File(const std::string& name) const { return folder_.path() + "/" + name; }

  // The log keeps or counts everything, and its end agrees with the record and with the file.
  void ExpectAccounted(uint32_t rank, uint64_t written) {
    const DecodedLog log = shim_.Log(rank);
    const auto* closed = shim_.WaitLogClosed(rank, 0);
    ASSERT_NE(closed, nullptr);
    EXPECT_FALSE(log.corrupt);
    EXPECT_EQ(closed->size(), std::filesystem::file_size(shim_.LogPath(rank)));
    EXPECT_EQ(closed->written_bytes(), written);
    EXPECT_EQ(log.both.size() + closed->dropped_bytes(), written);
    if (log.end) {
      EXPECT_EQ(log.cut_bytes, 0u);
      EXPECT_EQ(log.end->written_bytes, written);
      EXPECT_EQ(log.end->dropped_bytes, closed->dropped_bytes());
      EXPECT_EQ(log.gaps.stdout_bytes + log.gaps.stderr_bytes, closed->dropped_bytes());
    }
  }

  AttemptFolder folder_;
  ShimClient shim_{folder_.path(), "a", folder_.path() + "/leases"};
};

TEST_F(ShimLog, KeepsEveryByteOfAFloodOfSeveralRanks) {
  constexpr size_t kBytes = 10'000'003;
  for (int i = 0; i < 4; ++i) {
    const std::string seed = std::to_string(i + 1);
    const std::string bytes = std::to_string(kBytes);
    shim_.AddProbe({"--bytes", "1", bytes, seed, "--bytes", "2", bytes, std::to_string(i + 100)});
  }
  ASSERT_TRUE(shim_.RunToEnd());
  for (uint32_t rank = 0; rank < 4; ++rank) {
    const DecodedLog log = shim_.Log(rank);
    ExpectAccounted(rank, 2 * kBytes);
    EXPECT_EQ(Hash(log.stdout_bytes), HashOfSeededBytes(rank + 1, kBytes));
    EXPECT_EQ(Hash(log.stderr_bytes), HashOfSeededBytes(rank + 100, kBytes));
    EXPECT_TRUE(log.end.has_value());
  }
}

TEST_F(ShimLog, KeepsOneLineOfAHundredMegabytesInConstantMemory) {
  shim_.AddProbe({"--long-line", "1", "100000000", "--wait-file", File("go")});
  ASSERT_TRUE(shim_.StartAndPrepare());
  shim_.Run();
  ASSERT_TRUE(Eventually(
      [&] {
        std::error_code error;
        return std::filesystem::file_size(shim_.LogPath(0), error) >= 100'000'000;
      },
      60));
  std::ifstream status("/proc/" + std::to_string(shim_.pid()) + "/status");
  std::string line;
  long peak_kib = 0;
  while (std::getline(status, line)) {
    if (line.starts_with("VmHWM:")) peak_kib = std::atol(line.c_str() + 6);
  }
  EXPECT_GT(peak_kib, 0);
#if !defined(__SANITIZE_ADDRESS__)
  EXPECT_LT(peak_kib, 8 * 1024);
#endif
  std::ofstream(File("go")).put('x');
  ASSERT_NE(shim_.WaitStopped(), nullptr);
  ExpectAccounted(0, 100'000'000);
}

TEST_F(ShimLog, KeepsTheLastBytesOfAKilledRank) {
  shim_.AddProbe({"--lines", "1", "3000", "100", "--print", "END", "--signal", "9"});
  ASSERT_TRUE(shim_.RunToEnd());
  const DecodedLog log = shim_.Log(0);
  EXPECT_EQ(log.stdout_bytes.size(), 300'004u);
  EXPECT_TRUE(log.stdout_bytes.ends_with("END\n"));
  ExpectAccounted(0, 300'004);
}

TEST_F(ShimLog, GoesOnWhenARankClosesAStream) {
  shim_.AddProbe({"--print", "a", "--close", "1", "--eprint", "b", "--close", "2", "--sleep-ms",
                  "50", "--exit", "4"});
  ASSERT_TRUE(shim_.RunToEnd());
  EXPECT_EQ(shim_.WaitExited(0, 0)->value(), 4);
  EXPECT_EQ(shim_.Log(0).stdout_bytes, "a\n");
  EXPECT_EQ(shim_.Log(0).stderr_bytes, "b\n");
}

TEST_F(ShimLog, ASilentRankHasAnEmptyLogWithoutAFile) {
  shim_.AddProbe({});
  ASSERT_TRUE(shim_.RunToEnd());
  const internal::ShimRecord* closed =
      shim_.WaitFor([](const internal::ShimRecord& record) { return record.has_log_closed(); }, 20);
  ASSERT_NE(closed, nullptr);
  EXPECT_EQ(closed->log_closed().size(), 0u);
  EXPECT_FALSE(std::filesystem::exists(shim_.LogPath(0)));
}

TEST_F(ShimLog, AFileLimitDropsAndCountsAndStopsNobody) {
  shim_.file_size_limit = 64 * 1024;
  shim_.AddProbe({"--lines", "1", "10000", "100", "--lines", "2", "10000", "100", "--exit", "0"});
  ASSERT_TRUE(shim_.RunToEnd());
  EXPECT_EQ(shim_.WaitExited(0, 0)->value(), 0);
  ExpectAccounted(0, 2'000'000);
  const DecodedLog log = shim_.Log(0);
  EXPECT_TRUE(log.end.has_value()) << "room for the end is kept";
  EXPECT_GT(log.both.size(), 60'000u) << "the file is used as far as it goes";
  EXPECT_LE(std::filesystem::file_size(shim_.LogPath(0)), 64u * 1024);
}

TEST_F(ShimLog, AFullDiskLosesOutputButNoExitCode) {
  const std::string disk = File("disk");
  std::filesystem::create_directory(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=1m") != 0) {
    GTEST_SKIP() << "a small file system can only be mounted as root";
  }
  {
    ShimClient shim(disk, "a", folder_.path() + "/leases");
    shim.bootstrap.set_working_directory(folder_.path());
    shim.AddProbe({"--bytes", "1", "4000000", "1", "--touch", File("full"), "--wait-file",
                   File("room"), "--print", "after", "--exit", "7"});
    EXPECT_TRUE(shim.StartAndPrepare());
    shim.Run();
    EXPECT_TRUE(Eventually([&] { return std::filesystem::exists(File("full")); }))
        << "a rank must not stand still for a full disk";
    // Room again: the gap is told, and output is kept.
    EXPECT_EQ(::mount("tmpfs", disk.c_str(), "tmpfs", MS_REMOUNT, "size=4m"), 0);
    EXPECT_TRUE(Eventually([&] { return ReadLogFile(shim.LogPath(0)).gap_count > 0; }));
    std::ofstream(File("room")).put('x');
    const auto* exited = shim.WaitExited(0);
    EXPECT_TRUE(exited != nullptr && exited->value() == 7);
    EXPECT_NE(shim.WaitStopped(), nullptr);
    const DecodedLog log = ReadLogFile(shim.LogPath(0));
    EXPECT_FALSE(log.corrupt);
    EXPECT_TRUE(log.stdout_bytes.ends_with("after\n"));
    EXPECT_GT(log.stdout_bytes.size(), 500'000u);
    EXPECT_EQ(log.stdout_bytes.size() + log.gaps.stdout_bytes, 4'000'006u);
    EXPECT_EQ(log.end, (FrameEnd{4'000'006, log.gaps.stdout_bytes}));
    shim.Quit();
    EXPECT_EQ(shim.WaitExit(), 0);
  }
  EXPECT_EQ(::umount2(disk.c_str(), MNT_DETACH), 0);
}

TEST_F(ShimLog, TheQuotaKeepsTheFirstAndTheNewestOutputAndHolesGiveBlocksBack) {
  constexpr uint64_t kQuota = 12 << 20;
  constexpr size_t kFirstBytes = 30'000'000;
  shim_.bootstrap.set_log_quota_bytes(kQuota);
  shim_.AddProbe({"--bytes", "1", std::to_string(kFirstBytes), "1", "--touch", File("first"),
                  "--wait-file", File("go"), "--bytes", "1", "5000000", "2"});
  ASSERT_TRUE(shim_.StartAndPrepare());
  shim_.Run();
  ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(File("first")); }, 30));
  ASSERT_NE(shim_.WaitStarted(0), nullptr);
  const auto size = [&] { return std::filesystem::file_size(shim_.LogPath(0)); };
  // All of it went through the file, and part of it is a hole.
  const auto told = [&] {
    const DecodedLog log = shim_.Log(0);
    return log.both.size() + log.gaps.stdout_bytes;
  };
  ASSERT_TRUE(Eventually([&] { return told() == kFirstBytes; }));
  const DecodedLog log = shim_.Log(0);
  const std::string all = SeededString(1, kFirstBytes);
  EXPECT_GE(log.before_last_hole, 6u << 20);
  EXPECT_GT(log.both.size(), 11u << 20);
  EXPECT_GT(log.hole_count, 10);
  EXPECT_EQ(log.gap_count, 0);
  EXPECT_EQ(log.both, all.substr(0, log.before_last_hole) +
                          all.substr(log.before_last_hole + log.gaps.stdout_bytes));
  const auto blocks = [&] {
    struct stat status = {};
    ::stat(shim_.LogPath(0).c_str(), &status);
    return static_cast<uint64_t>(status.st_blocks) * 512;
  };
  const uint64_t before = blocks();
  // Blocks are reserved ahead, and every hole keeps one.
  EXPECT_LT(before, kQuota + (9u << 20));
  shim_.Commit(0, size());
  EXPECT_TRUE(Eventually([&] { return blocks() < before / 2; })) << blocks() << " of " << before;
  std::ofstream(File("go")).put('x');
  ASSERT_NE(shim_.WaitStopped(30), nullptr);
  const auto* closed = shim_.WaitLogClosed(0, 0);
  ASSERT_NE(closed, nullptr);
  EXPECT_EQ(closed->written_bytes(), 35'000'000u);
  EXPECT_EQ(closed->dropped_bytes(), log.gaps.stdout_bytes)
      << "after the commit there is room again";
}

}  // namespace
}  // namespace muster::testing
