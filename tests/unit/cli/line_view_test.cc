#include "coordinator/cli/line_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/cli/log_bytes.h"

namespace muster {
namespace {

using testing::ErrFrame;
using testing::GapFrame;
using ::testing::HasSubstr;
using testing::HoleFrame;
using testing::OutFrame;
using testing::Piece;

LineView::Options ForPipe() {
  LineView::Options options;
  options.host_of = [](uint32_t rank) { return "node-" + std::to_string(rank + 1); };
  return options;
}

std::string Show(LineView::Options options, const std::vector<v1::ReadLogsResponse>& pieces) {
  LineView view(std::move(options));
  std::string text;
  for (const auto& piece : pieces) view.Take(piece, &text);
  view.Finish(&text);
  return text;
}

TEST(LineView, LabelsWholeLines) {
  EXPECT_EQ(Show(ForPipe(), {Piece(0, 0, OutFrame("a\nb")), Piece(1, 0, OutFrame("c\n"))}),
            "[0@node-1] a\n[1@node-2] c\n[0@node-1] b\n");
}

TEST(LineView, JoinsFramesThatAreCutAnywhere) {
  const std::string bytes = OutFrame("one line\n") + ErrFrame("another\n");
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    EXPECT_EQ(
        Show(ForPipe(), {Piece(0, 0, bytes.substr(0, cut)), Piece(0, cut, bytes.substr(cut))}),
        "[0@node-1] one line\n[0@node-1] another\n")
        << cut;
  }
}

TEST(LineView, HoldsStreamsApart) {
  EXPECT_EQ(Show(ForPipe(), {Piece(0, 0, OutFrame("ou") + ErrFrame("err\n") + OutFrame("t\n"))}),
            "[0@node-1] err\n[0@node-1] out\n");
}

TEST(LineView, LeavesOutGapsThatAreTooOld) {
  LineView::Options options = ForPipe();
  options.since_ns = 2;
  EXPECT_EQ(Show(options, {Piece(0, 0, GapFrame(1, 1) + OutFrame("new\n", 10))}),
            "[0@node-1] new\n");
}

TEST(LineView, RawIsBytes) {
  LineView::Options options = ForPipe();
  options.raw = true;
  const std::string bytes("\0\xff\r\x1b[2Jx", 8);
  EXPECT_EQ(Show(options, {Piece(0, 0, OutFrame(bytes))}), bytes);
}

TEST(LineView, RemovesControlSequencesOnATerminal) {
  LineView::Options options = ForPipe();
  options.terminal = true;
  EXPECT_EQ(Show(options, {Piece(0, 0, OutFrame("\x1b[31mred\x1b[0m\x1b[2J\a!\n"))}),
            "[0@node-1] red!\n");
  options.colour = true;
  EXPECT_EQ(Show(options, {Piece(0, 0, OutFrame("\x1b[31mred\x1b[0m\x1b[2J\a!\n"))}),
            "\x1b[36m[0@node-1]\x1b[0m \x1b[31mred\x1b[0m!\n");
}

TEST(LineView, SaysWhatWasLost) {
  v1::ReadLogsResponse end = Piece(0, GapFrame(5, 6).size(), "", true);
  end.set_missing_bytes(77);
  const std::string text = Show(ForPipe(), {Piece(0, 0, GapFrame(5, 6)), end});
  EXPECT_THAT(text, HasSubstr("5 bytes of stdout, 6 bytes of stderr"));
  EXPECT_THAT(text, HasSubstr("the last 77 bytes of this rank's log never arrived"));
}

TEST(LineView, TellsHolesInARowAsOneGap) {
  const std::string bytes =
      OutFrame("first\nrest") + HoleFrame(5, 6, 0) + HoleFrame(10, 20, 1000) + OutFrame("last\n");
  EXPECT_EQ(
      Show(ForPipe(), {Piece(0, 0, bytes.substr(0, 100)), Piece(0, 100, bytes.substr(100, 50)),
                       Piece(0, 150, bytes.substr(150))}),
      "[0@node-1] first\n[0@node-1] rest\n"
      "[0@node-1] (muster: output lost here: 15 bytes of stdout, 26 bytes of stderr)\n"
      "[0@node-1] last\n");
  LineView::Options raw = ForPipe();
  raw.raw = true;
  EXPECT_EQ(Show(raw, {Piece(0, 0, bytes)}), "first\nrestlast\n");
}

TEST(LineView, CountsTheLossesThatRawDoesNotShow) {
  for (const bool raw : {false, true}) {
    LineView::Options options = ForPipe();
    options.raw = raw;
    LineView view(options);
    std::string text;
    view.Take(Piece(0, 0, OutFrame("a\n") + HoleFrame(5, 6, 10) + OutFrame("b\n")), &text);
    view.Take(Piece(1, 0, "damaged, as it is no frame"), &text);
    EXPECT_EQ(view.losses(), raw ? 2u : 0u);
  }
}

TEST(LineView, TellsAHoleAtTheEndOfALog) {
  for (const bool damaged : {false, true}) {
    const std::string bytes = HoleFrame(5, 6, 10) + (damaged ? std::string(100, 'x') : "");
    EXPECT_THAT(Show(ForPipe(), {Piece(0, 0, bytes, /*end=*/!damaged)}),
                HasSubstr("5 bytes of stdout, 6 bytes of stderr"));
  }
}

TEST(LineView, StopsAtDamageAndSaysSo) {
  const std::string good = OutFrame("good\n");
  const std::string text =
      Show(ForPipe(), {Piece(0, 0, good + std::string(100, 'x')), Piece(1, 0, OutFrame("b\n"))});
  EXPECT_THAT(text, HasSubstr("[0@node-1] good\n"));
  EXPECT_THAT(text, HasSubstr("damaged at byte " + std::to_string(good.size())));
  EXPECT_THAT(text, HasSubstr("[1@node-2] b\n"));
}

TEST(LineView, ShowsProgressBarsNowAndThen) {
  LineView view(ForPipe());
  std::string text;
  view.Take(Piece(0, 0, OutFrame("10%\r20%\r")), &text);
  EXPECT_EQ(text, "");
  EXPECT_TRUE(view.holds_text());
  EXPECT_TRUE(view.TakeProgress(&text));
  EXPECT_EQ(text, "[0@node-1] 20%\n");
  EXPECT_FALSE(view.TakeProgress(&text));
}

TEST(LineView, BeginsAgainWithANewAttempt) {
  v1::ReadLogsResponse second = Piece(0, 0, OutFrame("again\n"));
  second.set_attempt(2);
  EXPECT_EQ(Show(ForPipe(), {Piece(0, 0, OutFrame("half")), second}),
            "[0@node-1] half\n[0@node-1] again\n");
}

}  // namespace
}  // namespace muster
