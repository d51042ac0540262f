// Records as bytes; the file around them is in tests/process/io.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/io/record_log.h"

namespace muster {
namespace {

TEST(TakeRecord, ReturnsRecordsInOrder) {
  std::string bytes;
  AppendRecord(bytes, "a");
  AppendRecord(bytes, std::string("\0two\xff", 5));
  std::string_view rest = bytes;
  EXPECT_EQ(TakeRecord(rest), "a");
  EXPECT_EQ(TakeRecord(rest), std::string_view("\0two\xff", 5));
  EXPECT_TRUE(rest.empty());
  EXPECT_FALSE(TakeRecord(rest).has_value());
}

TEST(TakeRecord, TakesNothingOfARecordCutAnywhere) {
  std::string bytes;
  AppendRecord(bytes, "payload");
  for (size_t size = 0; size < bytes.size(); ++size) {
    std::string_view rest = std::string_view(bytes).substr(0, size);
    EXPECT_FALSE(TakeRecord(rest).has_value());
    EXPECT_EQ(rest.size(), size);
  }
}

TEST(TakeRecord, NoticesAnyChangedBit) {
  std::string good;
  AppendRecord(good, "payload");
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    std::string_view rest = bad;
    EXPECT_FALSE(TakeRecord(rest).has_value()) << "bit " << bit;
  }
}

TEST(TakeRecord, ZerosAreNoRecord) {
  const std::string zeros(64, '\0');
  std::string_view rest = zeros;
  EXPECT_FALSE(TakeRecord(rest).has_value());
}

}  // namespace
}  // namespace muster
