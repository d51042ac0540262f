#include "common/config/text.h"

#include <gtest/gtest.h>

#include <string>

namespace muster {
namespace {

TEST(ParseNumber, TakesDigitsUpToALimit) {
  EXPECT_EQ(ParseNumber("0", 8), 0u);
  EXPECT_EQ(ParseNumber("008", 8), 8u);
  EXPECT_EQ(ParseNumber("9", 8), std::nullopt);
  EXPECT_EQ(ParseNumber("18446744073709551615", UINT64_MAX), UINT64_MAX);
  EXPECT_EQ(ParseNumber("18446744073709551616", UINT64_MAX), std::nullopt);
  for (const std::string text : {"", "-1", "+1", " 1", "1 ", "1x", "0x1", "1.0"}) {
    EXPECT_EQ(ParseNumber(text, 100), std::nullopt) << text;
  }
}

TEST(Utf8Length, FollowsTheStandard) {
  EXPECT_EQ(Utf8Length("a"), 1u);
  EXPECT_EQ(Utf8Length("\xC3\xA4x"), 2u);
  EXPECT_EQ(Utf8Length("\xE2\x82\xAC"), 3u);
  EXPECT_EQ(Utf8Length("\xF0\x9F\x98\x80"), 4u);
  // Cut, overlong, surrogate, beyond U+10FFFF, stray continuation.
  for (const std::string text :
       {"", "\xC3", "\xC3x", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x80\x80\x80",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\x80", "\xE2\x82", "\xFF"}) {
    EXPECT_EQ(Utf8Length(text), 0u);
  }
}

TEST(Printable, ShowsBytesThatATerminalWouldObey) {
  EXPECT_EQ(Printable("plain \xC3\xA4"), "plain \xC3\xA4");
  EXPECT_EQ(Printable("a\n\r\t\x1b[31m\x7f\xFF\xC2\x9B"),
            "a\\n\\r\\t\\x1b[31m\\x7f\\xff\\xc2\\x9b");
  EXPECT_EQ(Printable(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(Printable("abcdef", 3), "abc...");
  EXPECT_EQ(Quoted("it"), "'it'");
}

TEST(Nearest, FindsMisspellingsOnly) {
  const std::vector<std::string_view> known{"script", "hostfile", "grace"};
  EXPECT_EQ(Nearest("scirpt", known), "script");
  EXPECT_EQ(Nearest("host_file", known), "hostfile");
  EXPECT_EQ(Nearest("wholly-different", known), "");
  EXPECT_EQ(Nearest(std::string(1000, 'x'), known), "");
}

TEST(Diagnostics, SortsByLineWithinAFileAndKeepsEachOnce) {
  Diagnostics diagnostics;
  diagnostics.Error("b", 7, "late");
  diagnostics.Error("a", 1, "other file");
  diagnostics.Error("b", 2, "early");
  diagnostics.Error("b", 2, "early");
  diagnostics.Error("b", 0, "whole");
  EXPECT_EQ(diagnostics.ErrorText(), "b: whole\nb:2: early\nb:7: late\na:1: other file");
  EXPECT_FALSE(diagnostics.ok());
}

}  // namespace
}  // namespace muster
