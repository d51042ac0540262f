#include "coordinator/spec/core_list.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(ParseCoreList, PutsListsIntoOneForm) {
  const std::pair<const char*, const char*> cases[] = {
      {"0-9,20-29", "0-9,20-29"}, {"3", "3"},       {"2,1,0", "0-2"},   {" 0 - 3 , 8 ", "0-3,8"},
      {"0-3,2-5", "0-5"},         {"0,0,7", "0,7"}, {"65535", "65535"}, {"4-4", "4"},
  };
  for (const auto& [text, want] : cases) {
    const absl::StatusOr<std::string> list = ParseCoreList(text);
    ASSERT_TRUE(list.ok()) << text;
    EXPECT_EQ(*list, want);
    EXPECT_EQ(*ParseCoreList(*list), want) << "it is its own";
  }
}

TEST(ParseCoreList, RefusesWhatNamesNoProcessor) {
  for (const char* text : {"", " ", ",", "a", "-1", "3-1", "0-", "1.5", "0,,1", "65536", "0-65536",
                           "99999999999999999999", "0x1", "0;1"}) {
    EXPECT_EQ(ParseCoreList(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace muster
