#include "coordinator/cli/time_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/process/cli/scripted_source.h"
#include "tests/unit/cli/log_bytes.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using testing::OutFrame;
using testing::Piece;
using testing::ScriptedSource;

TEST(ReadInTimeOrder, MergesRanks) {
  ScriptedSource source;
  source.AddCall({{Piece(0, 0, OutFrame("a\n", 1) + OutFrame("d\n", 7), true),
                   Piece(1, 0, OutFrame("b\n", 3) + OutFrame("c\n", 5) + OutFrame("e\n", 9), true)},
                  absl::OkStatus()});
  std::string text;
  const std::vector<uint32_t> ranks = {0, 1};
  EXPECT_TRUE(ReadInTimeOrder(
                  source, {}, ranks, ControlSequences::kKeep,
                  [&](const LogLine& line) { text += line.text; }, [] {})
                  .ok());
  EXPECT_EQ(text, "abcde");
}

TEST(ReadInTimeOrder, ReportsWhatFailed) {
  ScriptedSource source;
  source.AddCall({{Piece(0, 0, OutFrame("a\n", 1))}, absl::NotFoundError("gone")});
  const std::vector<uint32_t> ranks = {0};
  EXPECT_TRUE(absl::IsNotFound(ReadInTimeOrder(
      source, {}, ranks, ControlSequences::kKeep, [](const LogLine&) {}, [] {})));
}

TEST(ReadInTimeOrder, RefusesTooManyRanks) {
  ScriptedSource source;
  std::vector<uint32_t> ranks(kMaxOrderedRanks + 1);
  std::iota(ranks.begin(), ranks.end(), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(ReadInTimeOrder(
      source, {}, ranks, ControlSequences::kKeep, [](const LogLine&) {}, [] {})));
}

}  // namespace
}  // namespace muster
