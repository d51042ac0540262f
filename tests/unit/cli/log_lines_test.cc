#include "coordinator/cli/log_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/cli/log_bytes.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using testing::ErrFrame;
using testing::GapFrame;
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

TEST(LineSplitter, MarksItsNotes) {
  std::vector<std::string> notes;
  LineSplitter splitter(ControlSequences::kKeep, [&](const LogLine& line) {
    if (line.is_note) notes.push_back(Short(line));
  });
  splitter.Take(Piece(0, 0, OutFrame("a\nb", 5) + GapFrame(2, 3) + OutFrame("c\n", 6)));
  EXPECT_THAT(notes,
              ElementsAre("1e0:(muster: output lost here: 2 bytes of stdout, 3 bytes of stderr)"));
}

TEST(LineSplitter, TellsOnceOfDamageAtTheSource) {
  std::vector<std::string> lines;
  LineSplitter splitter(ControlSequences::kKeep,
                        [&](const LogLine& line) { lines.push_back(Short(line)); });
  const std::string bytes = OutFrame("a\nb", 5);
  splitter.Take(Piece(0, 0, bytes));
  v1::ReadLogsResponse damage = Piece(0, bytes.size(), "");
  damage.set_damaged_at(700);
  splitter.Take(damage);
  splitter.Take(damage);
  splitter.Take(Piece(0, bytes.size(), "", /*end=*/true));
  EXPECT_THAT(
      lines,
      ElementsAre("5o0:a", "5o0:b",
                  "5e0:(muster: the stored log is damaged at byte 700; the rest is left out)"));
}

}  // namespace
}  // namespace muster
