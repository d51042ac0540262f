#include "agent/supervise/spool.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <thread>

#include "agent/supervise/attempt_directory.h"
#include "tests/process/agent/temp_directory.h"

namespace muster {
namespace {

using std::chrono::milliseconds;

const AttemptId kAttempt{JobId("j"), 1};

class SpoolTest : public ::testing::Test {
 protected:
  SpoolTest() : spool_(loop_, temp_.path(), [this](const LogFileId& file) { OnGrew(file); }) {}

  void OnGrew(const LogFileId& file) {
    ++told_[file.rank];
    loop_.Stop();
  }

  // Runs the loop until `done` or a deadline.
  bool Wait(const std::function<bool()>& done) {
    const auto deadline = loop_.clock().Now() + std::chrono::seconds(20);
    while (!done() && loop_.clock().Now() < deadline) {
      const auto timer = loop_.PostAfter(milliseconds(100), [this] { loop_.Stop(); });
      loop_.Run();
      loop_.Cancel(timer);
    }
    return done();
  }

  void MakeAttempt() { ASSERT_EQ(::mkdir(Path("").c_str(), 0700), 0); }
  std::string Path(const std::string& name) const {
    return temp_.path() + "/" + AttemptDirectoryName(kAttempt) + "/" + name;
  }
  UniqueFd Open(uint32_t rank) const {
    return UniqueFd(
        ::open(Path(RankLogName(rank)).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  }

  TempDirectory temp_;
  EventLoop loop_;
  InotifySpool spool_;
  std::map<uint32_t, int> told_;
};

TEST_F(SpoolTest, ToldOfFilesInAttemptsThatComeLater) {
  MakeAttempt();
  const UniqueFd file = Open(3);
  ASSERT_EQ(::write(file.get(), "abc", 3), 3);
  ASSERT_TRUE(Wait([&] { return told_[3] > 0; }));
  EXPECT_EQ(*spool_.Read({kAttempt, 3}, 1, 100), "bc");
  told_.clear();
  ASSERT_EQ(::write(file.get(), "d", 1), 1);
  EXPECT_TRUE(Wait([&] { return told_[3] > 0; }));
}

TEST_F(SpoolTest, AFloodIsToldNowAndThenOnly) {
  MakeAttempt();
  const UniqueFd file = Open(0);
  ASSERT_TRUE(Wait([&] { return told_[0] > 0; }));
  told_.clear();
  const auto begin = loop_.clock().Now();
  std::thread writer([&] {
    const std::string line(100, 'x');
    for (int i = 0; i < 50'000; ++i) ASSERT_EQ(::write(file.get(), line.data(), line.size()), 100);
  });
  ASSERT_TRUE(Wait([&] { return spool_.Stat({kAttempt, 0})->end == 5'000'000; }));
  const auto took = std::chrono::duration_cast<milliseconds>(loop_.clock().Now() - begin);
  writer.join();
  EXPECT_LE(told_[0], took / InotifySpool::kGrowthInterval + 2);
}

TEST_F(SpoolTest, WhatDoesNotExistIsEmpty) {
  EXPECT_EQ(spool_.Stat({kAttempt, 0})->end, 0u);
  EXPECT_EQ(*spool_.Read({kAttempt, 0}, 0, 10), "");
  MakeAttempt();
  EXPECT_EQ(spool_.Stat({kAttempt, 0})->end, 0u);
}

TEST_F(SpoolTest, SeesWhatWasGivenUp) {
  MakeAttempt();
  const UniqueFd file = Open(0);
  const std::string block(1 << 20, 'x');
  ASSERT_EQ(::write(file.get(), block.data(), block.size()), static_cast<ssize_t>(block.size()));
  EXPECT_EQ(spool_.Stat({kAttempt, 0})->begin, 0u);
  if (::fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1 << 19) != 0) {
    GTEST_SKIP() << "no holes on this file system";
  }
  EXPECT_EQ(spool_.Stat({kAttempt, 0})->begin, 1u << 19);
  EXPECT_EQ(spool_.Stat({kAttempt, 0})->end, 1u << 20);
}

TEST_F(SpoolTest, FollowsNoSymbolicLink) {
  MakeAttempt();
  ASSERT_EQ(::symlink("/etc/passwd", Path(RankLogName(0)).c_str()), 0);
  EXPECT_FALSE(spool_.Read({kAttempt, 0}, 0, 10).ok());
}

TEST_F(SpoolTest, ForgetsAnAttempt) {
  MakeAttempt();
  const UniqueFd file = Open(0);
  ASSERT_TRUE(Wait([&] { return told_[0] > 0; }));
  spool_.Forget(kAttempt);
  spool_.Forget(kAttempt);
  told_.clear();
  ASSERT_EQ(::write(file.get(), "x", 1), 1);
  const auto timer = loop_.PostAfter(milliseconds(50), [this] { loop_.Stop(); });
  loop_.Run();
  loop_.Cancel(timer);
  EXPECT_EQ(told_[0], 0);
}

}  // namespace
}  // namespace muster
