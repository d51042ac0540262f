#include "common/base/cpu_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ParseCpuList, ReadsNumbersAndRanges) {
  EXPECT_THAT(*ParseCpuList("3"), ElementsAre(3));
  EXPECT_THAT(*ParseCpuList(" 8-9, 0-2,1\n"), ElementsAre(0, 1, 2, 8, 9));
  EXPECT_THAT(*ParseCpuList(""), IsEmpty());
  EXPECT_THAT(*ParseCpuList(" \n"), IsEmpty());
}

TEST(ParseCpuList, SaysWhatIsNone) {
  for (const char* text : {"a", "1,", ",1", "3-1", "1-", "-1", "1--2", "0x1", "65536", "1 2",
                           "0-65535,0-65535,0-65535", "99999999999"}) {
    EXPECT_EQ(ParseCpuList(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_THAT(ParseCpuList("0-3,x").status().message(), HasSubstr("found 'x'"));
}

TEST(CpuListText, JoinsNeighbours) {
  EXPECT_EQ(CpuListText({}), "");
  EXPECT_EQ(CpuListText({5}), "5");
  EXPECT_EQ(CpuListText({0, 1, 2, 4, 6, 7}), "0-2,4,6-7");
}

}  // namespace
}  // namespace muster
