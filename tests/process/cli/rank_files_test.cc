#include "coordinator/cli/rank_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>

#include "common/base/annotate.h"
#include "tests/process/cli/pipes.h"
#include "tests/unit/cli/log_bytes.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using testing::ErrFrame;
using testing::GapFrame;
using ::testing::HasSubstr;
using testing::OutFrame;
using testing::Piece;
using testing::ReadFile;
using testing::TemporaryFolder;

class RankFilesTest : public ::testing::Test {
 protected:
  RankFiles Make(const std::string& job_id) {
    return RankFiles(folder_.path() + "/logs", job_id,
                     [this](const std::string& message) { troubles_.push_back(message); });
  }
  std::string File(const std::string& name) { return folder_.path() + "/logs/" + name; }

  TemporaryFolder folder_;
  std::vector<std::string> troubles_;
};

TEST_F(RankFilesTest, HoldBothStreamsByteForByte) {
  RankFiles files = Make("j-1");
  const std::string binary("\0\xff\n\r\x1b[2J", 8);
  const std::string bytes = OutFrame("a") + ErrFrame("b\n") + OutFrame(binary);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    for (size_t i = 0; i < bytes.size(); i += 7) files.Take(Piece(rank, i, bytes.substr(i, 7)));
  }
  files.Finish(3);
  EXPECT_EQ(ReadFile(File("j-1/rank_0.log")), "ab\n" + binary);
  EXPECT_EQ(ReadFile(File("latest/rank_1.log")), "ab\n" + binary);
  EXPECT_EQ(ReadFile(File("j-1/rank_2.log")), "");
  EXPECT_TRUE(std::filesystem::exists(File("j-1/rank_2.log")));
  EXPECT_EQ(files.missing_bytes(), 0u);
  EXPECT_THAT(troubles_, ElementsAre());
}

TEST_F(RankFilesTest, TakesManySmallFramesAtOnce) {
  RankFiles files = Make("j-1");
  std::string bytes;
  std::string expected;
  for (int i = 0; i < 5000; ++i) {
    bytes += OutFrame(std::to_string(i) + "\n");
    expected += std::to_string(i) + "\n";
  }
  // A frame that is split over two pieces comes first in the second.
  files.Take(Piece(0, 0, bytes.substr(0, 100'010)));
  files.Take(Piece(0, 100'010, bytes.substr(100'010)));
  files.Finish(1);
  EXPECT_EQ(ReadFile(File("j-1/rank_0.log")), expected);
}

TEST_F(RankFilesTest, TakeZerosByTheirNumber) {
  RankFiles files = Make("j-1");
  const std::string zeros(200'000, '\0');
  const std::string bytes = OutFrame("a") + OutFrame(zeros) + OutFrame("b");
  v1::ReadLogsResponse first = Piece(0, 0, OutFrame("a") + OutFrame(zeros).substr(0, 30));
  first.set_zeros(zeros.size() - 6);
  files.Take(first);
  files.Take(Piece(0, bytes.size() - OutFrame("b").size(), OutFrame("b")));
  files.Finish(1);
  EXPECT_TRUE(ReadFile(File("j-1/rank_0.log")) == "a" + zeros + "b");
  EXPECT_THAT(troubles_, ElementsAre());
}

TEST_F(RankFilesTest, KeepEarlierRuns) {
  Make("j-1").Take(Piece(0, 0, OutFrame("one")));
  Make("j-2").Take(Piece(0, 0, OutFrame("two")));
  EXPECT_EQ(ReadFile(File("j-1/rank_0.log")), "one");
  EXPECT_EQ(ReadFile(File("latest/rank_0.log")), "two");
}

TEST_F(RankFilesTest, ServeMoreRanksThanFilesAreOpen) {
  RankFiles files = Make("j-1");
  for (const char* text : {"a", "b"}) {
    const uint64_t offset = text[0] == 'a' ? 0 : OutFrame("a").size();
    for (uint32_t rank = 0; rank < 600; ++rank) files.Take(Piece(rank, offset, OutFrame(text)));
  }
  files.Finish(600);
  EXPECT_EQ(ReadFile(File("j-1/rank_0.log")), "ab");
  EXPECT_EQ(ReadFile(File("j-1/rank_599.log")), "ab");
}

TEST_F(RankFilesTest, CountWhatWasLostOnTheWay) {
  RankFiles files = Make("j-1");
  files.Take(Piece(0, 0, OutFrame("a") + GapFrame(10, 5)));
  v1::ReadLogsResponse end = Piece(0, (OutFrame("a") + GapFrame(10, 5)).size(), "", true);
  end.set_missing_bytes(7);
  files.Take(end);
  EXPECT_EQ(files.missing_bytes(), 22u);
}

TEST_F(RankFilesTest, SayOnceThatTheyCannotBeWritten) {
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 1000;
  RankFiles files = Make("j-1");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string text(1500, 'x');
  files.Take(Piece(0, 0, OutFrame(text)));
  files.Take(Piece(0, OutFrame(text).size(), OutFrame(text)));
  files.Take(Piece(1, 0, OutFrame(text)));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_EQ(troubles_.size(), 1u);
  EXPECT_THAT(troubles_[0], HasSubstr("log"));
  EXPECT_THAT(troubles_[0], HasSubstr("rank_0.log"));
  EXPECT_EQ(files.missing_bytes(), 3 * 1500u - 2 * 1000u);
  EXPECT_EQ(ReadFile(File("j-1/rank_1.log")), text.substr(0, 1000));
}

TEST(PrepareLogDirectory, MakesParents) {
  TemporaryFolder folder;
  EXPECT_TRUE(PrepareLogDirectory(folder.path() + "/a/b").ok());
  EXPECT_TRUE(std::filesystem::is_directory(folder.path() + "/a/b"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path() + "/a/b"));
}

TEST(PrepareLogDirectory, RefusesAFileAndNamesIt) {
  TemporaryFolder folder;
  const std::string path = folder.path() + "/notadir";
  std::ofstream(path) << "x";
  EXPECT_THAT(std::string(MessageOf(PrepareLogDirectory(path))), HasSubstr(path));
  EXPECT_THAT(std::string(MessageOf(PrepareLogDirectory(path + "/below"))), HasSubstr(path));
}

}  // namespace
}  // namespace muster
