#include "coordinator/cli/since.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

constexpr int64_t kNow = 1'700'000'000'000'000'000;

TEST(ParseSince, TakesLengthsOfTime) {
  EXPECT_EQ(*ParseSince("10m", kNow), kNow - 600'000'000'000);
  EXPECT_EQ(*ParseSince("1.5s", kNow), kNow - 1'500'000'000);
}

TEST(ParseSince, TakesTimesInUtc) { EXPECT_EQ(*ParseSince("2023-11-14T22:13:20Z", kNow), kNow); }

TEST(ParseSince, TakesLocalTimes) {
  // Whatever the zone: the next day is 86400 s later, but for changes of the clock.
  const int64_t day = *ParseSince("2023-11-14", kNow);
  EXPECT_EQ(*ParseSince("2023-11-15 00:00:00", kNow), day + 86'400'000'000'000);
  EXPECT_TRUE(ParseSince("12:00", kNow).ok());
  EXPECT_EQ(*ParseSince("12:00:30", kNow), *ParseSince("12:00", kNow) + 30'000'000'000);
}

TEST(ParseSince, RefusesOtherText) {
  for (const char* text : {"", "yesterday", "2023-13-01", "12:00Zulu", "2023-11-14T22:13:20+1"}) {
    EXPECT_FALSE(ParseSince(text, kNow).ok()) << text;
  }
}

}  // namespace
}  // namespace muster
