#include "coordinator/logs/log_filter.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "coordinator/logs/log_selection.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr FrameKind kOut = FrameKind::kStdout;
constexpr FrameKind kErr = FrameKind::kStderr;

// A frame file as a story: `File().Out("a\n").Hole(5)`. Every frame is a nanosecond younger than
// the one before, the first has the time 1.
class File {
 public:
  File& Out(std::string_view text) { return Add(kOut, text); }
  File& Err(std::string_view text) { return Add(kErr, text); }
  File& Gap(uint64_t bytes) { return Add(FrameKind::kGap, Counters(bytes)); }
  File& Hole(uint64_t bytes) {
    return Add(FrameKind::kHole, Counters(bytes) + std::string(100, '\0'));
  }
  File& End() { return Add(FrameKind::kEnd, Counters(0)); }
  const std::string& bytes() const { return bytes_; }

 private:
  static std::string Counters(uint64_t bytes) {
    const auto payload = EncodeFrameGap({bytes, 0});
    return {payload.data(), payload.size()};
  }
  File& Add(FrameKind kind, std::string_view payload) {
    AppendFrame(bytes_, kind, ++time_ns_, payload);
    return *this;
  }
  std::string bytes_;
  int64_t time_ns_ = 0;
};

LogFilterOptions Grep(std::string_view expression) {
  LogFilterOptions options;
  options.pattern = *LinePattern::Make(expression);
  options.whole_lines = true;
  return options;
}

LogFilterOptions WholeLines() {
  LogFilterOptions options;
  options.whole_lines = true;
  return options;
}

// "1o:text" for each frame; gaps, holes and the end as "3gap", "4hole", "5end".
std::vector<std::string> Frames(std::string_view bytes) {
  std::vector<std::string> frames;
  FrameReader reader;
  reader.Feed(bytes);
  while (const std::optional<Frame> frame = reader.Next()) {
    const int kind = static_cast<int>(frame->kind);
    frames.push_back(kind <= 2
                         ? fmt::format("{}{}:{}", frame->time_ns, "oe"[kind - 1], frame -> payload)
                         : fmt::format("{}{}", frame->time_ns,
                                       kind == 3   ? "gap"
                                       : kind == 4 ? "end"
                                                   : "hole"));
  }
  EXPECT_FALSE(reader.corrupt());
  EXPECT_EQ(reader.partial_bytes(), 0u);
  return frames;
}

std::vector<std::string> Filter(const LogFilterOptions& options, const File& file) {
  LogFilter filter(options, {});
  std::string out;
  filter.Add(file.bytes(), &out);
  filter.Finish(&out);
  return Frames(out);
}

TEST(LogFilter, PassesEverythingWithoutOptions) {
  const File file = File().Out("a").Err("b\n").Gap(3).Out("").End();
  LogFilter filter({}, {});
  std::string out;
  filter.Add(file.bytes(), &out);
  EXPECT_EQ(out, file.bytes());
  EXPECT_EQ(filter.position(), out.size());
}

TEST(LogFilter, ChoosesFramesByStreamAndTime) {
  LogFilterOptions options;
  options.want_stdout = false;
  options.since_ns = 3;
  EXPECT_THAT(Filter(options, File().Err("old").Out("a").Err("b").Out("c").Err("d").End()),
              ElementsAre("3e:b", "5e:d", "6end"));
}

TEST(LogFilter, ChoosesLinesThatMatch) {
  EXPECT_THAT(Filter(Grep("^b"), File().Out("a\nb1\nc\nb2\n").Err("b3\nab\n").Out("c\n").End()),
              ElementsAre("1o:b1\nb2\n", "2e:b3\n", "4end"));
}

TEST(LogFilter, GivesALineWithTheTimeOfItsEnd) {
  EXPECT_THAT(Filter(Grep("hello"), File().Out("he").Err("other hello\n").Out("llo").Out("\nx")),
              ElementsAre("2e:other hello\n", "4o:hello\n"));
}

TEST(LogFilter, ChoosesWholeLinesByTheTimeOfTheirEnd) {
  LogFilterOptions options = WholeLines();
  options.since_ns = 3;
  EXPECT_THAT(Filter(options, File().Out("old\nbe").Err("x\n").Out("gun\n").Out("new\n")),
              ElementsAre("3o:begun\n", "4o:new\n"));
}

TEST(LogFilter, EndsALineAtAGapAHoleAndTheEnd) {
  EXPECT_THAT(Filter(Grep("."), File().Out("a").Gap(1).Out("b").Hole(1).Err("c").Out("d").End()),
              ElementsAre("2o:a", "2gap", "4o:b", "4gap", "7o:d", "7e:c", "7end"));
  EXPECT_THAT(Filter(Grep("^$"), File().Out("\r").Gap(1).Out("\n").End()),
              ElementsAre("2gap", "3o:\n", "4end"));
  EXPECT_THAT(Filter(Grep("ab"), File().Out("a").Gap(1).Out("b\n")), ElementsAre("2gap", "3o:"));
}

TEST(LogFilter, NeverLeavesOutGapsHolesAndTheEnd) {
  LogFilterOptions options = Grep("nothing");
  options.want_stdout = false;
  options.since_ns = 1000;
  EXPECT_THAT(Filter(options, File().Out("a\n").Gap(1).Err("b\n").Hole(2).Out("c").End()),
              ElementsAre("2gap", "4gap", "6end"));
}

TEST(LogFilter, MakesOneGapOfHolesThatFollowEachOther) {
  LogFilter filter(Grep("x"), {});
  std::string out;
  filter.Add(File().Out("a\n").Hole(1).Hole(2).Out("a\n").Hole(3).bytes(), &out);
  EXPECT_THAT(Frames(out), ElementsAre("3gap"));
  FrameReader reader;
  reader.Feed(out);
  EXPECT_EQ(DroppedBy(*reader.Next())->stdout_bytes, 3u);
  filter.Finish(&out);
  EXPECT_THAT(Frames(out), ElementsAre("3gap", "5gap"));
}

TEST(LogFilter, TakesZerosByTheirNumber) {
  std::string hole = File().Hole(7).bytes();
  const FrameGap dropped{7, 0};
  const auto counters = EncodeFrameGap(dropped);
  hole.clear();
  AppendFrame(hole, FrameKind::kHole, 1,
              std::string(counters.data(), counters.size()) + std::string(500'000, '\0'));
  const std::string bytes = File().Out("xa\n").bytes() + hole;
  LogFilter filter(Grep("x"), {});
  std::string out;
  filter.Add(bytes.substr(0, bytes.size() - 499'990), &out);
  filter.AddZeros(499'990, &out);
  filter.Add(File().Out("xb\n").bytes(), &out);
  EXPECT_THAT(Frames(out), ElementsAre("1o:xa\n", "1gap", "1o:xb\n"));
  filter.AddZeros(100, &out);
  EXPECT_EQ(filter.damaged_at(), bytes.size() + File().Out("xb\n").bytes().size());
}

TEST(LogFilter, KeepsLinesTogetherAcrossAHoleOfNothing) {
  EXPECT_THAT(Filter(Grep("ab"), File().Out("a").Hole(0).Out("b\n")), ElementsAre("3o:ab\n"));
}

TEST(LogFilter, TellsTheTimeOfTheLastFrameWhereTheFileStops) {
  EXPECT_THAT(Filter(Grep("a"), File().Out("a\n").Out("b\n").Err("c\n")),
              ElementsAre("1o:a\n", "3o:"));
  EXPECT_THAT(Filter(Grep("a"), File().Out("a\n").Out("b\n").End()), ElementsAre("1o:a\n", "3end"));
}

TEST(LogFilter, FinishDoesNotChangeWhatFollows) {
  const std::string file = File().Out("one a").Out(" two\nthree").Err("a").bytes();
  LogFilter filter(Grep("a"), {});
  std::string out;
  filter.Add(file, &out);
  const uint64_t position = filter.position();
  EXPECT_EQ(position, out.size());
  filter.Finish(&out);
  EXPECT_THAT(Frames(out), ElementsAre("2o:one a two\n", "3e:a"));
  EXPECT_EQ(filter.position(), position) << "unfinished text is not part of the filtered file";
}

TEST(LogFilter, DecidesALongLineByItsBeginning) {
  const std::string begin(kMaxLineBytes, 'a');
  const std::string end = std::string(2 * kMaxLineBytes, 'b') + "b\n";
  const File file = File().Out("x\n" + begin.substr(1)).Out("a").Err("e\n").Out(end + "a\n");
  std::string text;
  for (const std::string& frame : Filter(Grep("^a"), file)) text += frame.substr(3);
  EXPECT_EQ(text, begin + end + "a\n");
  EXPECT_THAT(Filter(Grep("b"), file), ElementsAre("4o:"));
}

TEST(LogFilter, ForgetsOverwrittenStatesOfALongProgressBar) {
  File file;
  for (int i = 0; i < 10'000; ++i) file.Out(fmt::format("\rstep {:>10}", i));
  file.Out("\nother\n");
  const std::vector<std::string> frames = Filter(Grep("step +9999$"), file);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_THAT(frames[0], ::testing::EndsWith("step       9999\n"));
  EXPECT_LT(frames[0].size(), kMaxLineBytes + 100);
  EXPECT_THAT(Filter(Grep("step +9998$"), file), ElementsAre("10001o:"));
}

TEST(LogFilter, MakesValidFramesOfTheLargestOnes) {
  const std::string line = std::string(999, 'x') + "\n";
  std::string large;
  while (large.size() + line.size() <= kMaxFramePayloadBytes) large += line;
  const std::string endless(kMaxFramePayloadBytes, 'y');
  std::string text;
  for (const std::string& frame : Filter(Grep("[xyz]"), File().Out("z").Out(large).Out(endless))) {
    EXPECT_LT(frame.size(), size_t{256} << 10) << "a response holds a whole frame";
    text += frame.substr(3);
  }
  EXPECT_EQ(text, "z" + large + endless);
}

TEST(LogFilter, StopsAtDamage) {
  File file;
  file.Out("a\nb").Err("a");
  LogFilter filter(Grep("a|b"), {});
  std::string out;
  filter.Add(file.bytes() + std::string(100, '?'), &out);
  EXPECT_EQ(filter.damaged_at(), file.bytes().size());
  EXPECT_THAT(Frames(out), ElementsAre("1o:a\n", "2o:b", "2e:a"));
  EXPECT_EQ(filter.position(), out.size());
  filter.Add(file.bytes(), &out);
  filter.Finish(&out);
  EXPECT_EQ(filter.position(), out.size()) << "nothing more came";
}

// --- What holds for every log ---

File RandomFile(std::mt19937& random) {
  const std::vector<std::string> words = {"a", "bb", "\n", "a\nb\n", "c\r", "\n\n", "a c b", ""};
  File file;
  for (int frames = random() % 40; frames > 0; --frames) {
    std::string text;
    for (int i = random() % 6; i > 0; --i) text += words[random() % words.size()];
    if (random() % 30 == 0)
      text += std::string(random() % (3 * kMaxLineBytes), "ab\r"[random() % 3]);
    switch (random() % 8) {
      case 0:
        file.Gap(random() % 9);
        break;
      case 1:
        file.Hole(random() % 9);
        break;
      case 2:
      case 3:
        file.Err(text);
        break;
      default:
        file.Out(text);
    }
  }
  if (random() % 2 == 0) file.End();
  return file;
}

LogFilterOptions RandomOptions(std::mt19937& random) {
  LogFilterOptions options;
  options.want_stdout = random() % 4 != 0;
  options.want_stderr = random() % 4 != 0;
  if (random() % 3 == 0) options.since_ns = random() % 20;
  options.whole_lines = random() % 4 != 0;
  if (options.whole_lines && random() % 2 == 0) options.pattern = *LinePattern::Make("a+$|^b");
  return options;
}

// `bytes` in pieces that are cut anywhere; then Finish.
std::string InPieces(LogFilter& filter, std::string_view bytes, std::mt19937& random) {
  std::string out;
  const size_t most = random() % 3 == 0 ? 5 : 5000;
  while (!bytes.empty()) {
    const size_t size = std::min<size_t>(bytes.size(), random() % most + 1);
    const std::string piece(bytes.substr(0, size));
    filter.Add(piece, &out);
    bytes.remove_prefix(size);
  }
  return out;
}

TEST(LogFilterProperty, DoesNotDependOnPiecesAndCanBeGoneOnWithAnywhere) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const File file = RandomFile(random);
    const LogFilterOptions options = RandomOptions(random);
    LogFilter at_once(options, {});
    std::string whole;
    at_once.Add(file.bytes(), &whole);
    ASSERT_EQ(at_once.position(), whole.size());
    LogFilter cut(options, {});
    ASSERT_EQ(InPieces(cut, file.bytes(), random), whole) << round;
    const uint64_t known = random() % (whole.size() + 1);
    LogFilter later(options, {.skipped_to = known});
    ASSERT_EQ(InPieces(later, file.bytes(), random), whole.substr(known)) << round;
    ASSERT_EQ(later.position(), whole.size());
    ASSERT_EQ(later.lines(), at_once.lines());
    std::string end;
    std::string end_of_cut;
    at_once.Finish(&end);
    cut.Finish(&end_of_cut);
    ASSERT_EQ(end, end_of_cut);
    Frames(whole + end);
  }
}

// Lines of both streams in the order in which they end; text that has not ended at the end.
std::vector<std::string> LinesOf(std::string_view bytes, std::string* unfinished) {
  std::vector<std::string> lines;
  std::string held[2];
  FrameReader reader;
  reader.Feed(bytes);
  while (const std::optional<Frame> frame = reader.Next()) {
    if (frame->kind != kOut && frame->kind != kErr) {
      for (std::string& text : held) {
        if (!text.empty()) lines.push_back(std::exchange(text, ""));
      }
      continue;
    }
    std::string& text = held[frame->kind == kOut ? 0 : 1];
    for (const char c : frame->payload) {
      if (c == '\n') {
        lines.push_back(std::exchange(text, ""));
      } else {
        text += c;
      }
    }
  }
  *unfinished = held[0] + "|" + held[1];
  return lines;
}

TEST(LogSelectionProperty, BeginsWithTheLastLines) {
  std::mt19937 random(2);
  for (int round = 0; round < 300; ++round) {
    File file;
    for (int i = random() % 30; i > 0; --i) {
      const std::string text = fmt::format("{}a{}", i, random() % 3 == 0 ? "" : "\nb\nab\n");
      if (random() % 9 == 0) {
        file.Gap(1);
      } else if (random() % 3 == 0) {
        file.Err(text);
      } else {
        file.Out(text);
      }
    }
    LogFilterOptions options = WholeLines();
    if (random() % 2 == 0) options.pattern = *LinePattern::Make("a$");
    options.want_stderr = random() % 3 != 0;
    std::string all;
    LogFilter(options, {}).Add(file.bytes(), &all);
    std::string unfinished;
    const std::vector<std::string> lines = LinesOf(all, &unfinished);
    const size_t wanted = random() % 12;
    const size_t stored = file.bytes().size();

    LogSelection selection(options, {.last_lines = wanted, .stored = stored});
    std::string out;
    while (selection.next() < selection.pass_end(stored)) {
      const size_t size = std::min<size_t>(stored - selection.next(), random() % 50 + 1);
      selection.Take(file.bytes().substr(selection.next(), size), 0, &out);
    }
    ASSERT_FALSE(selection.counting());
    EXPECT_EQ(selection.position(), all.size()) << "positions are those of the filtered file";
    const std::vector<std::string> last = LinesOf(out, &unfinished);
    const size_t count = std::min(wanted, lines.size());
    EXPECT_EQ(last, std::vector<std::string>(lines.end() - count, lines.end())) << round;
    selection.Take("", 0, &out);
    selection.Finish(&out);
  }
}

TEST(LogSelection, GoesOnBehindTheLastLines) {
  File file;
  file.Out("1\n2\n3\nbeg");
  const size_t stored = file.bytes().size();
  LogSelection selection(WholeLines(), {.last_lines = 2, .stored = stored});
  ASSERT_TRUE(selection.counting());
  std::string out;
  selection.Take(file.bytes(), 0, &out);
  ASSERT_FALSE(selection.counting());
  EXPECT_THAT(out, IsEmpty());
  EXPECT_EQ(selection.next(), 0u);
  selection.Take(file.bytes(), 0, &out);
  EXPECT_THAT(Frames(out), ElementsAre("1o:2\n3\n"));
  file.Out("un\n4\n");
  selection.Take(file.bytes().substr(stored), 0, &out);
  EXPECT_THAT(Frames(out), ElementsAre("1o:2\n3\n", "2o:begun\n4\n"));
}

TEST(LogSelection, HasThePositionsOfTheWholeFileWhereverItBegins) {
  File file;
  file.Out("1\n").Err("noise\n").Out("2\n");
  const size_t begin = file.bytes().size();
  file.Out("3\n").Err("noise\n");
  const size_t stored = file.bytes().size();
  LogFilterOptions options = WholeLines();
  options.want_stderr = false;
  std::string all;
  LogFilter(options, {}).Add(file.bytes(), &all);
  for (const std::optional<uint64_t> last_lines : {std::optional<uint64_t>(), {0}, {1}, {9}}) {
    LogSelection selection(
        options, {.offset = begin, .last_lines = last_lines, .stored = last_lines ? stored : 0});
    std::string out;
    bool told = false;
    while (selection.next() < selection.pass_end(stored)) {
      const uint64_t next = selection.next();
      selection.Take(file.bytes().substr(next, selection.pass_end(stored) - next), 0, &out);
      told = selection.PassBeginning() || told;
    }
    if (last_lines == 0) {
      EXPECT_THAT(out, IsEmpty());
    } else {
      EXPECT_THAT(Frames(out), ElementsAre("4o:3\n"));
    }
    EXPECT_EQ(selection.position(), all.size());
    EXPECT_EQ(told, !last_lines.has_value() || *last_lines == 0) << "before anything was selected";
    EXPECT_FALSE(selection.PassBeginning());
  }
}

TEST(LogSelection, CountsDamagedLogsToo) {
  const std::string bytes = File().Out("1\n2\n").bytes() + std::string(50, '?');
  LogSelection selection(WholeLines(), {.last_lines = 1, .stored = bytes.size()});
  std::string out;
  selection.Take(bytes, 0, &out);
  ASSERT_FALSE(selection.counting());
  selection.Take(bytes, 0, &out);
  EXPECT_THAT(Frames(out), ElementsAre("1o:2\n"));
  EXPECT_EQ(selection.damaged_at(), bytes.size() - 50);
}

}  // namespace
}  // namespace muster
