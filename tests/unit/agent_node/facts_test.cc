#include "agent/node/facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/annotate.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ParseSlots, TakesPositiveNumbersOnly) {
  EXPECT_EQ(*ParseSlots("3"), 3u);
  for (const char* bad : {"", "0", "-1", "8x", " 8", "99999999999", "5000"}) {
    EXPECT_FALSE(ParseSlots(bad).ok()) << bad;
  }
  EXPECT_THAT(std::string(MessageOf(ParseSlots("many").status())), HasSubstr("got \"many\""));
}

TEST(CheckNumericAddress, AcceptsNumbersOnly) {
  EXPECT_TRUE(CheckNumericAddress("192.0.2.1").ok());
  EXPECT_TRUE(CheckNumericAddress("2001:db8::1").ok());
  EXPECT_FALSE(CheckNumericAddress("node-1").ok());
  EXPECT_FALSE(CheckNumericAddress("[::1]").ok());
  EXPECT_FALSE(CheckNumericAddress("").ok());
}

TEST(CollectFacts, ReportsExactlyTheAddressesAndSlotsAskedFor) {
  FactsOptions options;
  options.slots = 3;
  options.addresses = {"127.0.0.1", "::1"};
  const v1::NodeFacts facts = CollectFacts(options);
  EXPECT_THAT(facts.addresses(), ElementsAre("127.0.0.1", "::1"));
  EXPECT_THAT(facts.slots(), ElementsAre(0u, 1u, 2u));
}

TEST(CollectFacts, DescribesThisMachine) {
  const v1::NodeFacts facts = CollectFacts({});
  EXPECT_FALSE(facts.hostname().empty());
  EXPECT_GT(facts.cpu_count(), 0u);
  EXPECT_GT(facts.memory_bytes(), 1u << 20);
  EXPECT_FALSE(facts.agent_version().empty());
}

TEST(ReadBootId, IsTheSameTwice) {
  ASSERT_TRUE(ReadBootId().ok());
  EXPECT_EQ(*ReadBootId(), *ReadBootId());
  EXPECT_EQ(ReadBootId()->size(), 36u);
}

TEST(ReadBootId, FailsWithoutProc) { EXPECT_FALSE(ReadBootId("/nonexistent").ok()); }

}  // namespace
}  // namespace muster
