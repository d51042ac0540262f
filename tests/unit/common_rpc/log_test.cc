#include "common/log/log.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(LogQuoted, KeepsPlainWords) {
  EXPECT_EQ(LogQuoted("node-1"), "node-1");
  EXPECT_EQ(LogQuoted("/var/lib/x.db"), "/var/lib/x.db");
}

TEST(LogQuoted, KeepsALineALine) {
  EXPECT_EQ(LogQuoted(""), "\"\"");
  EXPECT_EQ(LogQuoted("a b"), "\"a b\"");
  EXPECT_EQ(LogQuoted("a=b"), "\"a=b\"");
  EXPECT_EQ(LogQuoted("a\nrank=7"), "\"a\\nrank=7\"");
  EXPECT_EQ(LogQuoted("say \"hi\"\\"), "\"say \\\"hi\\\"\\\\\"");
  EXPECT_EQ(LogQuoted("\x1b[31m\x07"), "\"\\x1b[31m\\x07\"");
  EXPECT_EQ(LogQuoted("Gr\xc3\xb6\xc3\x9f"
                      "e"),
            "\"Gr\xc3\xb6\xc3\x9f"
            "e\"");
}

}  // namespace
}  // namespace muster
