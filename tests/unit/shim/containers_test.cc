#include "agent/shim/containers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace muster::shim {
namespace {

using internal::ShimRankExited;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

siginfo_t Exited(int code) {
  siginfo_t info = {};
  info.si_code = CLD_EXITED;
  info.si_status = code;
  return info;
}

siginfo_t Killed(int signal) {
  siginfo_t info = {};
  info.si_code = CLD_KILLED;
  info.si_status = signal;
  return info;
}

const ContainerState kUnknown = {};
const ContainerState kAbsent = {.known = true};
const ContainerState kCreated = {.known = true, .exists = true, .exit_code = 127};
const ContainerState kRunning = {.known = true, .exists = true, .started = true, .running = true};

ContainerState Ended(int code, bool oom = false) {
  return {.known = true, .exists = true, .started = true, .exit_code = code, .oom_killed = oom};
}

TEST(EndOfClient, IsThatOfTheContainerWhereThatEnded) {
  for (const siginfo_t& info : {Exited(1), Exited(125), Exited(127), Killed(SIGKILL)}) {
    const ShimRankExited exited = EndOfClient(3, "docker", info, Ended(7, true), "");
    EXPECT_EQ(exited.rank(), 3u);
    EXPECT_EQ(exited.kind(), ShimRankExited::CODE);
    EXPECT_EQ(exited.value(), 7);
    EXPECT_TRUE(exited.oom_killed());
  }
}

TEST(EndOfClient, IsAFailureToStartWhereNothingWasStarted) {
  struct Case {
    int code;
    ContainerState state;
    int error_number;
  };
  for (const Case& one : {Case{125, kAbsent, EIO}, Case{125, kUnknown, EIO},
                          Case{126, kCreated, EACCES}, Case{127, kCreated, ENOENT}}) {
    const ShimRankExited exited =
        EndOfClient(0, "podman", Exited(one.code), one.state, "Error: no such runtime");
    EXPECT_EQ(exited.kind(), ShimRankExited::EXEC_FAILED) << one.code;
    EXPECT_EQ(exited.value(), one.error_number);
    // The engine's own failure is no word about the program.
    EXPECT_EQ(exited.step(), one.code == 125 ? "engine" : "container");
    EXPECT_THAT(exited.message(),
                AllOf(HasSubstr("podman did not start the container and ended with " +
                                std::to_string(one.code)),
                      HasSubstr("podman said: Error: no such runtime")));
    EXPECT_EQ(exited.message().find("program") != std::string::npos, one.code != 125);
  }
}

TEST(EndOfClient, IsTheClientsOwnWhereTheEngineKnowsNoBetter) {
  for (const int code : {1, 137}) {
    EXPECT_EQ(EndOfClient(0, "docker", Exited(code), kAbsent, "").value(), code);
    EXPECT_EQ(EndOfClient(0, "docker", Exited(code), kUnknown, "").kind(), ShimRankExited::CODE);
  }
  for (const ContainerState& state : {kRunning, kUnknown, kAbsent, kCreated}) {
    const ShimRankExited exited = EndOfClient(0, "docker", Killed(SIGKILL), state, "");
    EXPECT_EQ(exited.kind(), ShimRankExited::SIGNAL);
    EXPECT_EQ(exited.value(), SIGKILL);
  }
}

TEST(EndOfClient, OfAContainerThatRunsOnIsNoCode) {
  const ShimRankExited exited = EndOfClient(0, "docker", Exited(1), kRunning, "");
  EXPECT_EQ(exited.kind(), ShimRankExited::EXEC_FAILED);
  EXPECT_THAT(exited.message(), HasSubstr("while its container ran"));
}

TEST(IsDoubtful, IsTrueWhereTheClientMaySpeakOfItself) {
  for (const int code : {1, 125, 126, 127, 137}) EXPECT_TRUE(IsDoubtful(Exited(code))) << code;
  for (const int code : {0, 2, 124, 128, 143, 255}) EXPECT_FALSE(IsDoubtful(Exited(code))) << code;
  EXPECT_TRUE(IsDoubtful(Killed(SIGTERM)));
}

TEST(ParseContainers, ReadsIdsAndNames) {
  EXPECT_THAT(ParseContainers("aa muster-j-1-0\nbb muster-j-1-1\n\n"),
              UnorderedElementsAre(Pair("aa", "muster-j-1-0"), Pair("bb", "muster-j-1-1")));
  EXPECT_TRUE(ParseContainers("").empty());
}

TEST(ParseContainerState, ReadsWhatBothEnginesPrint) {
  const ContainerState docker = ParseContainerState("false|137|true|2026-01-02T03:04:05.6Z\n");
  EXPECT_TRUE(docker.known && docker.exists && docker.started && docker.oom_killed);
  EXPECT_EQ(docker.exit_code, 137);
  EXPECT_FALSE(docker.running);
  const ContainerState podman =
      ParseContainerState("true|0|false|2026-01-02 03:04:05.6 +0100 CET\n");
  EXPECT_TRUE(podman.known && podman.running && podman.started);
  EXPECT_FALSE(ParseContainerState("false|127|false|0001-01-01T00:00:00Z\n").started);
  for (const char* text : {"", "no|0|false|x", "true|x|false|x", "true|1|false", "true|1|a|b|c"}) {
    EXPECT_FALSE(ParseContainerState(text).known) << text;
  }
}

}  // namespace
}  // namespace muster::shim
