#include "coordinator/core/pairing.h"

#include <gtest/gtest.h>

#include <set>

namespace muster::testing {
namespace {

TEST(PairsOfRound, EveryTwoMeetOnceAndNobodyTwiceInARound) {
  for (size_t count = 2; count <= 33; ++count) {
    const size_t rounds = count - 1 + count % 2;
    std::set<std::pair<size_t, size_t>> met;
    for (size_t round = 0; round < rounds; ++round) {
      std::set<size_t> busy;
      for (const auto& [a, b] : PairsOfRound(count, round)) {
        EXPECT_LT(a, b);
        EXPECT_LT(b, count);
        EXPECT_TRUE(busy.insert(a).second) << count << " nodes, round " << round;
        EXPECT_TRUE(busy.insert(b).second) << count << " nodes, round " << round;
        EXPECT_TRUE(met.emplace(a, b).second) << count << " nodes, round " << round;
      }
      EXPECT_EQ(busy.size(), count - count % 2);
    }
    EXPECT_EQ(met.size(), count * (count - 1) / 2) << count;
  }
}

TEST(PairsOfRound, NobodyMeetsAlone) {
  EXPECT_TRUE(PairsOfRound(0, 0).empty());
  EXPECT_TRUE(PairsOfRound(1, 0).empty());
}

TEST(PairsOfRound, BeginsAnewAfterTheLastRound) {
  EXPECT_EQ(PairsOfRound(4, 0), PairsOfRound(4, 3));
  EXPECT_EQ(PairsOfRound(5, 1), PairsOfRound(5, 6));
}

}  // namespace
}  // namespace muster::testing
