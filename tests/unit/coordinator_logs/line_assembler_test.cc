#include "coordinator/logs/line_assembler.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace muster {
namespace {

LineFormat Format(size_t max_line_bytes = size_t{64} << 10) {
  return {.prefix = LinePrefix(3, "node-1"), .max_line_bytes = max_line_bytes};
}

TEST(LinePrefix, NamesRankAndHost) { EXPECT_EQ(LinePrefix(12, "node-3"), "[12@node-3] "); }

TEST(LineAssembler, HoldsALineUntilItsEnd) {
  LineAssembler lines(Format());
  std::string out;
  lines.Add(LogStream::kStdout, "one\ntw", &out);
  EXPECT_EQ(out, "[3@node-1] one\n");
  EXPECT_TRUE(lines.holds_text());
  lines.Add(LogStream::kStdout, "o\n\nthree", &out);
  EXPECT_EQ(out, "[3@node-1] one\n[3@node-1] two\n[3@node-1] \n");
  lines.Finish(&out);
  EXPECT_EQ(out, "[3@node-1] one\n[3@node-1] two\n[3@node-1] \n[3@node-1] three\n");
  EXPECT_FALSE(lines.holds_text());
}

TEST(LineAssembler, KeepsTheStreamsApart) {
  LineAssembler lines(Format());
  std::string out;
  lines.Add(LogStream::kStdout, "out", &out);
  lines.Add(LogStream::kStderr, "err\n", &out);
  lines.Add(LogStream::kStdout, "put\n", &out);
  EXPECT_EQ(out, "[3@node-1] err\n[3@node-1] output\n");
}

TEST(LineAssembler, CutsALineThatIsTooLong) {
  LineAssembler lines({.prefix = "> ", .max_line_bytes = 4});
  std::string out;
  lines.Add(LogStream::kStdout, "abcdefgh\nxy\n", &out);
  EXPECT_EQ(out, "> abcd\n> efgh\n> xy\n");
}

TEST(LineAssembler, CutsTheSameLinesHoweverTheBytesArrive) {
  const std::string text = "abcdefghi\n\nxyz\n12345678\nlast";
  std::string whole;
  LineAssembler at_once({.prefix = "> ", .max_line_bytes = 4});
  at_once.Add(LogStream::kStdout, text, &whole);
  at_once.Finish(&whole);
  EXPECT_EQ(whole, "> abcd\n> efgh\n> i\n> \n> xyz\n> 1234\n> 5678\n> last\n");
  for (size_t step = 1; step < text.size(); ++step) {
    LineAssembler lines({.prefix = "> ", .max_line_bytes = 4});
    std::string out;
    for (size_t at = 0; at < text.size(); at += step) {
      lines.Add(LogStream::kStdout, std::string_view(text).substr(at, step), &out);
    }
    lines.Finish(&out);
    EXPECT_EQ(out, whole) << "step " << step;
  }
}

TEST(LineAssembler, KeepsEveryByteOfLinesWithoutCarriageReturns) {
  uint32_t seed = 7;
  std::string text;
  for (int i = 0; i < 200000; ++i) {
    seed = seed * 1664525 + 1013904223;
    char c = static_cast<char>(seed >> 24);
    if (c == '\r') c = 'r';
    text += (seed >> 8) % 50 == 0 ? '\n' : c;
  }
  LineAssembler lines({.prefix = ""});
  std::string out;
  for (size_t at = 0; at < text.size(); at += 997) {
    lines.Add(LogStream::kStdout, std::string_view(text).substr(at, 997), &out);
  }
  lines.Finish(&out);
  if (text.back() != '\n') text += '\n';
  EXPECT_EQ(out, text);
}

TEST(LineAssembler, ShowsTheNewestStateOfAProgressBar) {
  LineAssembler lines({.prefix = "> "});
  std::string out;
  lines.Add(LogStream::kStderr, "\r 10%", &out);
  lines.Add(LogStream::kStderr, "\r 20%", &out);
  EXPECT_EQ(out, "");
  EXPECT_TRUE(lines.EmitProgress(&out));
  EXPECT_EQ(out, ">  20%\n");
  EXPECT_FALSE(lines.EmitProgress(&out)) << "it has not changed";
  lines.Add(LogStream::kStderr, "\r100%\ndone\n", &out);
  EXPECT_EQ(out, ">  20%\n> 100%\n> done\n");
}

TEST(LineAssembler, DoesNotRepeatAProgressBarAtTheEnd) {
  LineAssembler lines({.prefix = "> "});
  std::string out;
  lines.Add(LogStream::kStderr, "\r100%", &out);
  EXPECT_TRUE(lines.EmitProgress(&out));
  lines.Finish(&out);
  EXPECT_EQ(out, "> 100%\n");
}

TEST(LineAssembler, TakesUpdatesThatEndWithACarriageReturn) {
  LineAssembler lines({.prefix = "> "});
  std::string out;
  lines.Add(LogStream::kStdout, "10%\r20%\r", &out);
  EXPECT_TRUE(lines.EmitProgress(&out));
  lines.Add(LogStream::kStdout, "30%\r\n", &out);
  EXPECT_EQ(out, "> 20%\n> 30%\n");
}

TEST(LineAssembler, ForgetsOverwrittenStatesInsteadOfCuttingThem) {
  LineAssembler lines({.prefix = "> ", .max_line_bytes = 16});
  std::string out;
  for (int i = 0; i < 1000; ++i)
    lines.Add(LogStream::kStdout, fmt::format("\r{:4} of 1000", i), &out);
  lines.Add(LogStream::kStdout, "\n", &out);
  EXPECT_EQ(out, ">  999 of 1000\n");
}

TEST(LineAssembler, ReadsWindowsLineEnds) {
  LineAssembler lines({.prefix = "> "});
  std::string out;
  lines.Add(LogStream::kStdout, "a\r\nb\r", &out);
  lines.Add(LogStream::kStdout, "\nc\r\n", &out);
  EXPECT_EQ(out, "> a\n> b\n> c\n");
}

TEST(LineAssembler, SaysWhatWasLost) {
  LineAssembler lines({.prefix = "> "});
  std::string out;
  lines.Add(LogStream::kStdout, "half", &out);
  lines.AddGap(1000, 0, &out);
  lines.Add(LogStream::kStdout, "rest\n", &out);
  EXPECT_EQ(out,
            "> half\n> (muster: output lost here: 1000 bytes of stdout, 0 bytes of stderr)\n"
            "> rest\n");
}

TEST(LineAssembler, FiltersOnlyWhatItIsAskedTo) {
  LineAssembler lines({.prefix = "> ", .control_sequences = ControlSequences::kColourOnly});
  std::string out;
  lines.Add(LogStream::kStdout, "\x1b[2J\x1b[32mgreen\n", &out);
  EXPECT_EQ(out, "> \x1b[32mgreen\x1b[0m\n");
}

}  // namespace
}  // namespace muster
