#include "agent/shim/text.h"

#include <gtest/gtest.h>

namespace muster::shim {
namespace {

TEST(Printable, KeepsUtf8AndEscapesTheRest) {
  EXPECT_EQ(Printable("caf\xc3\xa9\n\x7f"), "caf\xc3\xa9\\x0a\\x7f");
  // What others left in a lease file, say: a record with such bytes could not be read.
  EXPECT_EQ(Printable("a\xff\xc3"), "a\\xff\\xc3");
  EXPECT_EQ(Printable("caf\xc3\xa9!", 4), "caf\\xc3...");
}

TEST(LastWords, AreTheLastLinesThatSaySomething) {
  EXPECT_EQ(LastWords(""), "");
  EXPECT_EQ(LastWords("\n \n"), "");
  EXPECT_EQ(LastWords("a warning\nanother\ndocker: no such runtime\n\nSee 'docker run --help'.\n"),
            "another | docker: no such runtime | See 'docker run --help'.");
  EXPECT_EQ(LastWords("one\ntwo", 5), "two");
  EXPECT_EQ(LastWords("one\nlonger", 3), "lon...");
}

}  // namespace
}  // namespace muster::shim
