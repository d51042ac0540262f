#include "agent/supervise/spool.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "agent/supervise/attempt_directory.h"
#include "tests/process/agent/temp_directory.h"

namespace muster {
namespace {

const AttemptId kAttempt{JobId("j"), 1};

class SpoolTest : public ::testing::Test {
 protected:
  void MakeAttempt() { ASSERT_EQ(::mkdir(Path("").c_str(), 0700), 0); }
  std::string Path(const std::string& name) const {
    return temp_.path() + "/" + AttemptDirectoryName(kAttempt) + "/" + name;
  }
  UniqueFd Open(uint32_t rank) const {
    return UniqueFd(
        ::open(Path(RankLogName(rank)).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  }

  TempDirectory temp_;
  FileSpool spool_{temp_.path()};
};

TEST_F(SpoolTest, ReadsWhatIsAppended) {
  MakeAttempt();
  const UniqueFd file = Open(3);
  ASSERT_EQ(::write(file.get(), "abc", 3), 3);
  EXPECT_EQ(*spool_.Read({kAttempt, 3}, 1, 100), "bc");
  ASSERT_EQ(::write(file.get(), "d", 1), 1);
  EXPECT_EQ(spool_.Stat({kAttempt, 3})->end, 4u);
  EXPECT_EQ(*spool_.Read({kAttempt, 3}, 3, 100), "d");
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
  const SpoolReader::Run hole = spool_.RunAt({kAttempt, 0}, 1000);
  EXPECT_TRUE(hole.zeros);
  EXPECT_EQ(hole.bytes, (1u << 19) - 1000);
  const SpoolReader::Run data = spool_.RunAt({kAttempt, 0}, (1 << 19) + 7);
  EXPECT_FALSE(data.zeros);
  EXPECT_EQ(data.bytes, (1u << 19) - 7) << "up to the end";
  EXPECT_FALSE(spool_.RunAt({kAttempt, 1}, 0).zeros) << "no such file";
}

TEST_F(SpoolTest, NothingIsFixedBeforeTheShimSaysSo) {
  EXPECT_EQ(spool_.Stat({kAttempt, 0})->fixed, 0u);
  MakeAttempt();
  const UniqueFd file = Open(0);
  ASSERT_EQ(::write(file.get(), "abc", 3), 3);
  EXPECT_EQ(spool_.Stat({kAttempt, 0})->fixed, 0u);
  spool_.SetFixed({kAttempt, 0}, 1000);
  EXPECT_EQ(spool_.Stat({kAttempt, 0})->fixed, 1000u);
  EXPECT_EQ(spool_.Stat({kAttempt, 1})->fixed, 0u);
  spool_.Forget(kAttempt);
  EXPECT_EQ(spool_.Stat({kAttempt, 0})->fixed, 0u);
}

TEST_F(SpoolTest, FollowsNoSymbolicLink) {
  MakeAttempt();
  ASSERT_EQ(::symlink("/etc/passwd", Path(RankLogName(0)).c_str()), 0);
  EXPECT_FALSE(spool_.Read({kAttempt, 0}, 0, 10).ok());
}

TEST_F(SpoolTest, ForgetsAnAttempt) {
  MakeAttempt();
  const UniqueFd file = Open(0);
  ASSERT_EQ(::write(file.get(), "abc", 3), 3);
  EXPECT_EQ(spool_.Stat({kAttempt, 0})->end, 3u);
  spool_.Forget(kAttempt);
  spool_.Forget(kAttempt);
  ASSERT_EQ(::unlink(Path(RankLogName(0)).c_str()), 0);
  // The deleted file is not held open.
  EXPECT_EQ(spool_.Stat({kAttempt, 0})->end, 0u);
}

}  // namespace
}  // namespace muster
