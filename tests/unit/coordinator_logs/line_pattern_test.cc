#include "coordinator/logs/line_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/base/annotate.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(std::string_view expression) {
  return std::string(MessageOf(LinePattern::Make(expression).status()));
}

TEST(LinePattern, TakesExpressions) {
  const LinePattern pattern = *LinePattern::Make("loss=[0-9]+|NaN$");
  EXPECT_TRUE(pattern.Matches("step 3 loss=12"));
  EXPECT_TRUE(pattern.Matches("it is NaN"));
  EXPECT_FALSE(pattern.Matches("NaN it is"));
  EXPECT_FALSE(pattern.Matches(""));
  EXPECT_TRUE(LinePattern::Make("^$")->Matches(""));
}

TEST(LinePattern, WorksOnBytes) {
  EXPECT_TRUE(LinePattern::Make("NaN$")->Matches(std::string_view("a\0b NaN", 7)));
  EXPECT_TRUE(
      LinePattern::Make("a.b")->Matches("a\xff"
                                        "b"));
  EXPECT_TRUE(LinePattern::Make("a\xff"
                                "b")
                  ->Matches("a\xff"
                            "b"));
  EXPECT_TRUE(LinePattern::Make("caf\xc3\xa9")->Matches("a caf\xc3\xa9"));
}

TEST(LinePattern, LooksAtWhatATerminalShows) {
  const LinePattern pattern = *LinePattern::Make("^ 20%$");
  EXPECT_TRUE(pattern.Matches(" 10%\r 20%"));
  EXPECT_TRUE(pattern.Matches(" 10%\r 20%\r"));
  EXPECT_FALSE(pattern.Matches(" 20%\r 30%"));
}

TEST(LinePattern, SaysWhatIsWrongAndWhere) {
  EXPECT_THAT(ErrorOf("(a"), HasSubstr("'(a': missing )"));
  EXPECT_THAT(ErrorOf("ab[z-a]"), HasSubstr("invalid character class range: z-a at byte 4"));
  EXPECT_THAT(ErrorOf("(a)\\1"), HasSubstr("invalid escape sequence: \\1 at byte 4"));
  EXPECT_THAT(ErrorOf(std::string(5000, 'a')), HasSubstr("5000 bytes, at most 4096"));
  EXPECT_THAT(ErrorOf("((a{100}){100}){100}"), HasSubstr("invalid repetition size: {100}"));
  EXPECT_LT(ErrorOf(std::string(4096, '(')).size(), 500u);
  std::string large;
  for (int i = 0; i < 300; ++i) large += "(a|b){1000}";
  EXPECT_THAT(ErrorOf(large), HasSubstr("pattern too large"));
  EXPECT_THAT(ErrorOf("[ab]{1000}[ab]{1000}[ab]{1000}[ab]{1000}c"),
              HasSubstr("would take too long"));
  EXPECT_TRUE(LinePattern::Make("a[ab]{1000}c").ok());
}

}  // namespace
}  // namespace muster
