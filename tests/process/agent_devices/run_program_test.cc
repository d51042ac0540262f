#include "agent/devices/run_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/annotate.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

ProgramCall Shell(const std::string& script) {
  return {.program = "/bin/sh",
          .argv = {"sh", "-c", script},
          .environ = {"PATH=/usr/bin:/bin"},
          .limit = std::chrono::seconds(20)};
}

TEST(RunProgram, ReturnsWhatWasWritten) {
  EXPECT_EQ(*RunProgram(Shell("echo one; echo two >&2; echo three")), "one\nthree\n");
}

TEST(RunProgram, TellsHowItEndedAndWhatItSaid) {
  const auto code = RunProgram(Shell("echo broken >&2; exit 3"));
  EXPECT_THAT(std::string(MessageOf(code.status())), HasSubstr("code 3: broken"));
  EXPECT_THAT(std::string(MessageOf(RunProgram(Shell("kill -9 $$")).status())),
              HasSubstr("SIGKILL"));
  ProgramCall missing = Shell("");
  missing.program = "/nowhere/hl-smi";
  EXPECT_THAT(std::string(MessageOf(RunProgram(missing).status())), HasSubstr("/nowhere/hl-smi"));
}

TEST(RunProgram, EndsWhatHangsAndWhatItStarted) {
  ProgramCall call = Shell("sleep 1000 & sleep 1000");
  call.limit = std::chrono::milliseconds(200);
  EXPECT_EQ(RunProgram(call).status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(RunProgram, DoesNotWaitForWhatAProgramLeaves) {
  // It keeps the pipe open.
  EXPECT_EQ(*RunProgram(Shell("sleep 1000 & echo done")), "done\n");
}

TEST(RunProgram, EndsWhatPrintsWithoutEnd) {
  ProgramCall call = Shell("yes");
  call.most_bytes = 1000;
  EXPECT_EQ(RunProgram(call).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(FindInPath, TakesExecutableFilesOfAbsoluteFoldersOnly) {
  EXPECT_EQ(FindInPath("sh", "/nowhere:relative:/bin"), "/bin/sh");
  EXPECT_EQ(FindInPath("sh", ""), "");
  EXPECT_EQ(FindInPath("passwd", "/etc"), "");
}

}  // namespace
}  // namespace muster
