#include "agent/shim/exec_image.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace muster::shim {
namespace {

Strings Make(const std::vector<std::string>& texts) { return {texts.begin(), texts.end()}; }

TEST(FindEnv, FindsTheValueOfExactlyThatName) {
  const Strings env = Make({"PATHS=x", "PATH=/bin", "EMPTY=", "A=b=c"});
  EXPECT_EQ(FindEnv(env, "PATH"), "/bin");
  EXPECT_EQ(FindEnv(env, "EMPTY"), "");
  EXPECT_EQ(FindEnv(env, "A"), "b=c");
  EXPECT_FALSE(FindEnv(env, "PAT").has_value());
  EXPECT_FALSE(FindEnv(env, "NONE").has_value());
}

TEST(MergeEnv, ReplacesInPlaceAndAddsAtTheEnd) {
  Strings env = Make({"A=1", "MASTER_ADDR=old", "B=2"});
  MergeEnv(env, Make({"MASTER_PORT=29500", "MASTER_ADDR=10.0.0.1"}));
  EXPECT_EQ(std::vector<std::string>(env.begin(), env.end()),
            (std::vector<std::string>{"A=1", "MASTER_ADDR=10.0.0.1", "B=2", "MASTER_PORT=29500"}));
}

TEST(DescribeLargestString, NamesAVariableWithoutItsValue) {
  EXPECT_EQ(DescribeLargestString(Make({"python3", "x.py"}), Make({"A=1", "TOKEN=0123456789"})),
            "the environment variable TOKEN (16 bytes)");
  EXPECT_EQ(DescribeLargestString(Make({"python3", std::string(500, 'x')}), Make({"A=1"})),
            "argument 1 (500 bytes)");
}

}  // namespace
}  // namespace muster::shim
