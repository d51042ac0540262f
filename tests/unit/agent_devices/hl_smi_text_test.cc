#include "agent/devices/hl_smi_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<std::string> kFields = {
    "index", "module_id", "bus_id", "memory.used", "memory.total", "utilization.aip", "power.draw"};

std::vector<uint32_t> Modules(const HlSmiText& text) {
  std::vector<uint32_t> modules;
  for (const HlSmiCard& card : text.cards) modules.push_back(card.device.module_id());
  return modules;
}

TEST(ParseHlSmi, ReadsRowsInAnyOrderWithBlanksAndUnits) {
  const HlSmiText text = ParseHlSmi(
      "3, 0, 0000:b3:00.0, 512 MiB, 98304 MiB, 7 %, 94 W\n"
      " 0, 3, 0000:19:00.0, 768 MiB, 98304 MiB, 0 %, 101.5 W\n",
      kFields);
  EXPECT_THAT(Modules(text), ElementsAre(0, 3));
  const HlSmiCard& card = text.cards[1];
  EXPECT_EQ(card.device.index(), 0u);
  EXPECT_EQ(card.device.pci_address(), "0000:19:00.0");
  EXPECT_EQ(card.reading.module_id(), 3u);
  EXPECT_EQ(card.reading.memory_used_bytes(), uint64_t{768} << 20);
  EXPECT_EQ(card.reading.memory_total_bytes(), uint64_t{96} << 30);
  EXPECT_EQ(card.reading.utilization_percent(), 0u);
  EXPECT_TRUE(card.reading.has_utilization_percent());
  EXPECT_EQ(card.reading.power_milliwatts(), 101'500u);
  EXPECT_FALSE(card.reading.has_temperature_celsius());
}

TEST(ParseHlSmi, TakesTheColumnsOfAHeaderWhateverWasAskedFor) {
  const HlSmiText text = ParseHlSmi("index, module_id\n0, 6\n1, 4\n2, 7\n3, 5\n", kFields);
  EXPECT_THAT(Modules(text), ElementsAre(6, 4, 7, 5));
  EXPECT_EQ(text.other_lines, 0u);
  const HlSmiText other = ParseHlSmi("module_id, memory.used [MiB], index\n5, 12, 0\n", kFields);
  EXPECT_THAT(Modules(other), ElementsAre(5));
  EXPECT_EQ(other.cards[0].reading.memory_used_bytes(), uint64_t{12} << 20);
}

TEST(ParseHlSmi, PassesOverLogLinesBetweenRows) {
  const HlSmiText text = ParseHlSmi(
      "[12:00:01.1][SYN_API ][info ] opened, device, 3\n"
      "0, 6, 0000:19:00.0, 1 MiB, 2 MiB, 0 %, 94 W\r\n"
      "\n"
      "WARNING, a, b, c, d, e, f\n"
      "1, 4, 0000:1a:00.0, N/A, N/A, N/A, N/A\n",
      kFields);
  EXPECT_THAT(Modules(text), ElementsAre(6, 4));
  EXPECT_EQ(text.other_lines, 2u);
  EXPECT_THAT(text.first_other, ::testing::HasSubstr("SYN_API"));
  EXPECT_FALSE(text.cards[1].reading.has_memory_used_bytes());
}

TEST(ParseHlSmi, TakesNoRowForACardThatLacksANumber) {
  for (const char* bad :
       {"", "\n\n", "0, 6\n", "0, N/A, x, 1 MiB, 2 MiB, 0 %, 9 W\n",
        "-1, 6, x, 1 MiB, 2 MiB, 0 %, 9 W\n", "0, 99999999999, x, 1 MiB, 2 MiB, 0 %, 9 W\n",
        ",,,,,,\n", "index, x\n0, 1\n"}) {
    EXPECT_THAT(ParseHlSmi(bad, kFields).cards, IsEmpty()) << bad;
  }
}

}  // namespace
}  // namespace muster
