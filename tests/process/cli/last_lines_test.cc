#include "coordinator/cli/last_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/process/cli/scripted_source.h"
#include "tests/unit/cli/log_bytes.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using testing::ErrFrame;
using testing::OutFrame;
using testing::Piece;
using testing::ScriptedSource;

TEST(ReadLastLines, TakesBothStreamsWithoutControls) {
  ScriptedSource source;
  source.AddCall(
      {{Piece(2, 0, OutFrame("1\n2\n3\n") + ErrFrame("\x1b[31mred\x1b[0m\n") + OutFrame("half"))},
       absl::OkStatus()});
  EXPECT_THAT(ReadLastLines(source, "j", 2, 3), ElementsAre("3", "red", "half"));
  EXPECT_GT(source.requests()[0].tail_bytes(), 0u);
}

TEST(ReadLastLines, DropsALineWithoutItsBeginning) {
  ScriptedSource source;
  source.AddCall({{Piece(2, 1000, OutFrame("nd of something\nwhole\n"))}, absl::OkStatus()});
  EXPECT_THAT(ReadLastLines(source, "j", 2, 20), ElementsAre("whole"));
}

TEST(ReadLastLines, CutsLongLines) {
  ScriptedSource source;
  source.AddCall({{Piece(2, 0, OutFrame(std::string(5000, 'x') + "\n"))}, absl::OkStatus()});
  const auto lines = ReadLastLines(source, "j", 2, 20);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0], std::string(400, 'x') + " ... (5000 bytes)");
}

TEST(ReadLastLines, HasNoneWhenTheyCannotBeRead) {
  ScriptedSource source;
  EXPECT_THAT(ReadLastLines(source, "j", 2, 20), ElementsAre());
}

}  // namespace
}  // namespace muster
