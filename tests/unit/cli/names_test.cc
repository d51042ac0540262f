#include "coordinator/cli/names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/cli/sample_job.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

TEST(ParseRanks, TakesListsAndRanges) {
  EXPECT_THAT(*ParseRanks("3"), ElementsAre(3));
  EXPECT_THAT(*ParseRanks("0-3,9"), ElementsAre(0, 1, 2, 3, 9));
  EXPECT_THAT(*ParseRanks("9,1-2,2"), ElementsAre(1, 2, 9));
}

TEST(ParseRanks, RefusesEverythingElse) {
  for (const char* text :
       {"", ",", "1,", "a", "3-1", "-1", "1-", "1-2-3", "99999999999", " 1", "0-4000000000"}) {
    EXPECT_FALSE(ParseRanks(text).ok()) << text;
  }
}

TEST(FormatRanks, FoldsRuns) {
  EXPECT_EQ(FormatRanks({}), "");
  EXPECT_EQ(FormatRanks(std::vector<uint32_t>{5}), "5");
  EXPECT_EQ(FormatRanks(std::vector<uint32_t>{0, 1, 2, 3, 7, 9, 10}), "0-3,7,9,10");
}

TEST(ListNames, CutsAtTheLimit) {
  const std::vector<std::string> names = {"a", "b", "c"};
  EXPECT_EQ(ListNames(names), "a, b, c");
  EXPECT_EQ(ListNames(names, 2), "a, b and 1 more");
  EXPECT_EQ(ListNames({}), "");
}

TEST(HostOf, FindsTheNodeOfARank) {
  EXPECT_EQ(HostOf(testing::SampleJob(), 2), "node-2");
  EXPECT_EQ(HostOf(testing::SampleJob(), 9), "?");
  EXPECT_THAT(RanksOf(testing::SampleJob(), 1), ElementsAre(2, 3));
}

TEST(Count, KnowsOneFromMany) {
  EXPECT_EQ(Count(1, "rank"), "1 rank");
  EXPECT_EQ(Count(0, "rank"), "0 ranks");
}

}  // namespace
}  // namespace muster
