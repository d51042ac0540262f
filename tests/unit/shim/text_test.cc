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

}  // namespace
}  // namespace muster::shim
