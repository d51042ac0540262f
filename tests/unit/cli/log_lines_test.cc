#include "coordinator/cli/log_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/cli/log_bytes.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using testing::ErrFrame;
using testing::OutFrame;
using testing::Piece;

std::string Short(const LogLine& line) {
  return std::to_string(line.time_ns) + (line.stream == LogStream::kStdout ? "o" : "e") +
         std::to_string(line.rank) + ":" + line.text;
}

TEST(LineSplitter, KnowsStreamAndTimeOfEveryLine) {
  std::vector<std::string> lines;
  LineSplitter splitter(ControlSequences::kKeep,
                        [&](const LogLine& line) { lines.push_back(Short(line)); });
  splitter.Take(Piece(2, 0, OutFrame("a\nb", 1) + ErrFrame("x", 2) + OutFrame("c\n", 3)));
  splitter.Take(Piece(1, 0, OutFrame("other\n", 4)));
  splitter.Finish();
  EXPECT_THAT(lines, ElementsAre("1o2:a", "3o2:bc", "4o1:other", "3e2:x"));
}

TEST(LineTail, KeepsTheLastOfEveryRank) {
  LineTail tail(2);
  for (int64_t time : {1, 2, 3}) {
    tail.Add({10 * time, 0, LogStream::kStdout, "a"});
    tail.Add({10 * time + 5, 1, LogStream::kStdout, "b"});
  }
  std::vector<std::string> lines;
  for (const LogLine& line : LineTail(tail).Take(false)) lines.push_back(Short(line));
  EXPECT_THAT(lines, ElementsAre("20o0:a", "30o0:a", "25o1:b", "35o1:b"));
  lines.clear();
  for (const LogLine& line : tail.Take(true)) lines.push_back(Short(line));
  EXPECT_THAT(lines, ElementsAre("20o0:a", "25o1:b", "30o0:a", "35o1:b"));
  EXPECT_THAT(tail.Take(true), ElementsAre());
}

TEST(LineTail, MayKeepNothing) {
  LineTail tail(0);
  tail.Add({1, 0, LogStream::kStdout, "a"});
  EXPECT_THAT(tail.Take(false), ElementsAre());
}

TEST(LineMatcher, TakesExtendedExpressions) {
  const LineMatcher matcher = *LineMatcher::Make("loss=[0-9]+|NaN$");
  EXPECT_TRUE(matcher.Matches("step 3 loss=12"));
  EXPECT_TRUE(matcher.Matches("it is NaN"));
  EXPECT_FALSE(matcher.Matches("NaN it is"));
  EXPECT_TRUE(matcher.Matches(std::string_view("a\0b NaN", 7)));
  EXPECT_FALSE(LineMatcher::Make("(").ok());
}

}  // namespace
}  // namespace muster
