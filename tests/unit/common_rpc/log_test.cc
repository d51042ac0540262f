#include "common/log/log.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(Quoted, KeepsPlainWords) {
  EXPECT_EQ(Quoted("node-1"), "node-1");
  EXPECT_EQ(Quoted("/var/lib/x.db"), "/var/lib/x.db");
}

TEST(Quoted, KeepsALineALine) {
  EXPECT_EQ(Quoted(""), "\"\"");
  EXPECT_EQ(Quoted("a b"), "\"a b\"");
  EXPECT_EQ(Quoted("a=b"), "\"a=b\"");
  EXPECT_EQ(Quoted("a\nrank=7"), "\"a\\nrank=7\"");
  EXPECT_EQ(Quoted("say \"hi\"\\"), "\"say \\\"hi\\\"\\\\\"");
  EXPECT_EQ(Quoted("\x1b[31m\x07"), "\"\\x1b[31m\\x07\"");
  EXPECT_EQ(Quoted("Gr\xc3\xb6\xc3\x9f"
                   "e"),
            "\"Gr\xc3\xb6\xc3\x9f"
            "e\"");
}

}  // namespace
}  // namespace muster
