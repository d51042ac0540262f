#include "common/config/duration.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <string>

namespace muster {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(ParseDuration, ReadsNumbersWithUnits) {
  const std::pair<std::string, Duration> cases[] = {
      {"30s", seconds(30)},
      {"5m", minutes(5)},
      {"24h", hours(24)},
      {"1h30m", minutes(90)},
      {"2d", hours(48)},
      {"500ms", milliseconds(500)},
      {"1.5s", milliseconds(1500)},
      {"30", seconds(30)},
      {"0", seconds(0)},
      {"0.25", milliseconds(250)},
      {"1d2h3m4s5ms", hours(26) + minutes(3) + seconds(4) + milliseconds(5)},
      {" 10s ", seconds(10)},
      {"090m", minutes(90)},
      {"3650d", kMaxDuration}};
  for (const auto& [text, expected] : cases) {
    const auto parsed = ParseDuration(text);
    ASSERT_TRUE(parsed.ok()) << text << ": " << parsed.status();
    EXPECT_EQ(*parsed, expected) << text;
  }
}

TEST(ParseDuration, RefusesEverythingElse) {
  for (const std::string text :
       {"",         " ",    "s",   "-5s", "5x",   "5 m",   "1m1h", "1h1h",
        "1h30",     "5.s",  ".5s", "5S",  "1e3s", "3651d", "five", "99999999999999999999s",
        "3650d1ms", "0x10", "5m,", "\n"}) {
    const auto parsed = ParseDuration(text);
    EXPECT_FALSE(parsed.ok()) << text;
    EXPECT_NE(parsed.status().message().find("30s, 5m or 1h30m"), absl::string_view::npos)
        << parsed.status();
  }
}

TEST(FormatDuration, IsReadBackToTheSameValue) {
  EXPECT_EQ(FormatDuration(seconds(0)), "0s");
  EXPECT_EQ(FormatDuration(minutes(90)), "1h30m");
  EXPECT_EQ(FormatDuration(milliseconds(1500)), "1s500ms");
  std::mt19937_64 random(7);
  for (int i = 0; i < 10000; ++i) {
    const Duration duration =
        milliseconds(random() % static_cast<uint64_t>(kMaxDuration / milliseconds(1)));
    const auto parsed = ParseDuration(FormatDuration(duration));
    ASSERT_TRUE(parsed.ok()) << FormatDuration(duration);
    EXPECT_EQ(*parsed, duration);
  }
}

}  // namespace
}  // namespace muster
