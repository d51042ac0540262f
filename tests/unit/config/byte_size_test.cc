#include "common/config/byte_size.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace muster {
namespace {

using ::testing::HasSubstr;

TEST(ParseByteSize, ReadsNumbersWithAndWithoutUnit) {
  EXPECT_EQ(*ParseByteSize("0"), 0u);
  EXPECT_EQ(*ParseByteSize("1000"), 1000u);
  EXPECT_EQ(*ParseByteSize("3KiB"), 3072u);
  EXPECT_EQ(*ParseByteSize("512MiB"), 512u << 20);
  EXPECT_EQ(*ParseByteSize(" 4 GiB "), uint64_t{4} << 30);
  EXPECT_EQ(*ParseByteSize("1048576GiB"), kMaxByteSize);
}

TEST(ParseByteSize, SaysWhatIsWrong) {
  const auto why = [](std::string_view text) {
    const auto size = ParseByteSize(text);
    EXPECT_FALSE(size.ok()) << text;
    return std::string(size.status().message());
  };
  EXPECT_THAT(why(""), HasSubstr("it is empty"));
  EXPECT_THAT(why("MiB"), HasSubstr("expected a number"));
  EXPECT_THAT(why("-1"), HasSubstr("expected a number"));
  EXPECT_THAT(why("1.5GiB"), HasSubstr("whole numbers"));
  EXPECT_THAT(why("5MB"), HasSubstr("unknown unit 'MB', known are KiB, MiB and GiB"));
  EXPECT_THAT(why("5gib"), HasSubstr("unknown unit"));
  EXPECT_THAT(why("1048577GiB"), HasSubstr("more than 1024 TiB"));
  EXPECT_THAT(why("99999999999999999999999"), HasSubstr("more than 1024 TiB"));
}

}  // namespace
}  // namespace muster
