#include "coordinator/logs/control_sequences.h"

#include <gtest/gtest.h>

#include "coordinator/logs/line_assembler.h"

namespace muster {
namespace {

std::string Filter(std::string_view text, ControlSequences mode) {
  std::string out;
  AppendFiltered(text, mode, &out);
  return out;
}

TEST(HasControls, FindsThemAtEveryPosition) {
  for (const std::string_view control : {"\x1b", "\x07", "\r", "\x7f", "\xc2\x9b"}) {
    for (size_t at = 0; at < 40; ++at) {
      std::string text(40, 'x');
      text.insert(at, control);
      EXPECT_TRUE(HasControls(text)) << "at " << at;
    }
  }
}

TEST(HasControls, LetsTextPass) {
  EXPECT_FALSE(HasControls(""));
  EXPECT_FALSE(HasControls("step 1\tloss 2.5"));
  EXPECT_FALSE(HasControls("Größe \xc2\xa9 \xe2\x9c\x93 und so weiter, und so weiter"));
  EXPECT_FALSE(HasControls("\xff\xfe bytes that are no UTF-8 \x80\x9b\xc2"));
}

struct FilterCase {
  std::string_view text;
  std::string_view colour_only;
  std::string_view none;
};

TEST(AppendFiltered, KeepsColoursAndRemovesTheRest) {
  const FilterCase cases[] = {
      {"plain\ttext", "plain\ttext", "plain\ttext"},
      {"\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m", "red"},
      {"\x1b[1;38;5;9mred\x1b[m", "\x1b[1;38;5;9mred\x1b[m", "red"},
      // A colour left on is reset.
      {"\x1b[31mred", "\x1b[31mred\x1b[0m", "red"},
      // Cursor movement, clearing, keyboard modes.
      {"a\x1b[2J\x1b[1;1Hb", "ab", "ab"},
      {"a\x1b[>4mb", "ab", "ab"},
      {"a\x1b[?25lb", "ab", "ab"},
      // Titles and the clipboard, ended by BEL or ST.
      {"a\x1b]0;title\x07"
       "b",
       "ab", "ab"},
      {"a\x1b]52;c;Zm9v\x1b\\b", "ab", "ab"},
      {"a\x1bP1;2|data\x1b\\b", "ab", "ab"},
      // Short escapes, with and without intermediates.
      {"a\x1b(Bb", "ab", "ab"},
      {"a\x1b"
       "cb",
       "ab", "ab"},
      // Single controls.
      {"a\x07\x08\x0b\x0c\x0e\x7f"
       "b",
       "ab", "ab"},
      // C1 controls in UTF-8.
      {"a\xc2\x9b"
       "31mb",
       "ab", "ab"},
      {"a\xc2\x85"
       "b",
       "ab", "ab"},
      // Cut off.
      {"a\x1b", "a", "a"},
      {"a\x1b[31", "a", "a"},
      {"a\x1b]0;tit", "a", "a"},
      // Not a valid sequence: what follows is text again.
      {"a\x1b[3\xc3\xa4z", "a\xc3\xa4z", "a\xc3\xa4z"},
      {"\xc3\xa4\xc2\xa9", "\xc3\xa4\xc2\xa9", "\xc3\xa4\xc2\xa9"},
  };
  for (const FilterCase& c : cases) {
    EXPECT_EQ(Filter(c.text, ControlSequences::kColourOnly), c.colour_only) << c.text;
    EXPECT_EQ(Filter(c.text, ControlSequences::kNone), c.none) << c.text;
    EXPECT_EQ(Filter(c.text, ControlSequences::kKeep), c.text);
  }
}

TEST(AppendFiltered, LeavesNoControlBehindWhateverItIsGiven) {
  uint32_t seed = 1;
  const std::string_view alphabet = "\x1b[]\x07\\P0;m\xc2\x9b\x80 aZ\r\x7f";
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (int i = 0; i < 16; ++i) {
      seed = seed * 1664525 + 1013904223;
      text += alphabet[(seed >> 16) % alphabet.size()];
    }
    ASSERT_FALSE(HasControls(Filter(text, ControlSequences::kNone)))
        << testing::PrintToString(text);
  }
}

}  // namespace
}  // namespace muster
