// Ranks in containers, through the real path, on a stand-in for the engine whose containers, as
// those of a real one, are no descendants of whoever asked for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/integration/sandbox/command_run.h"
#include "tests/integration/stand_in/engine.h"

namespace muster {
namespace {

using ::testing::AllOf;
using testing::CommandRun;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Sandbox;
using testing::Seconds;
using testing::StandInEngine;
using testing::WaitUntil;
using Json = nlohmann::json;

namespace fs = std::filesystem;

class RunContainer : public ::testing::Test {
 protected:
  RunContainer() { box_.Hosts(2, 1); }

  void WriteJob(const std::string& rest) {
    box_.Write("job.yaml", "hostfile: hosts\ngrace: 1s\ncontainer: {image: 'img:1'}\n" + rest);
  }
  CommandRun Start() { return box_.Start({"submit", "--local", "job.yaml"}); }
  CommandRun Run() { return box_.Run({"submit", "--local", "job.yaml"}); }

  Json Containers() const { return engine_.Containers(); }
  // Starts ranks that ignore SIGTERM and sleep.
  CommandRun StartDeaf(const std::string& rest = "") {
    WriteJob("command: [sh, -c, 'trap \"\" TERM; touch up.$RANK; while :; do sleep 1; done']\n" +
             rest);
    CommandRun run = Start();
    EXPECT_TRUE(box_.WaitFor("up.0") && box_.WaitFor("up.1")) << run.err();
    EXPECT_EQ(Containers().size(), 2u);
    for (const Json& one : Containers()) pids_.push_back(one["pid"]);
    return run;
  }
  void ExpectNothingLeft(Seconds limit = Seconds(30)) {
    EXPECT_TRUE(WaitUntil([&] { return Containers().empty(); }, limit)) << Containers();
    for (const pid_t pid : pids_) EXPECT_NE(::kill(pid, 0), 0) << pid;
  }

  Sandbox box_;
  StandInEngine engine_{box_};
  std::vector<pid_t> pids_;
};

TEST_F(RunContainer, ARankRunsInItWithItsOwnArgumentsVariablesAndFolder) {
  box_.Write("show.py", R"(import json, os, sys
with open('seen.' + os.environ['RANK'], 'w') as stream:
    json.dump({'argv': sys.argv[1:], 'env': dict(os.environ), 'cwd': os.getcwd()}, stream)
print('out of', os.environ['RANK'], flush=True)
print('err of', os.environ['RANK'], file=sys.stderr)
)");
  box_.Write(".deepspeed_env", "LIBS=$LD_LIBRARY_PATH:/mine\n");
  box_.Set("LD_LIBRARY_PATH", "/agent/lib");
  box_.Set("AGENT_ONLY", "x");
  WriteJob(
      "script: show.py\n"
      "args: ['', 'a b', '$HOME', \"it's\", '*', \"two\\nlines\", \"-v\"]\n"
      "env:\n  HF_TOKEN: \"s3cret and\\nmore\"\n  PATH: /job/bin:/usr/bin:/bin\n");
  CommandRun run = Run();
  EXPECT_EQ(run.Wait(), 0) << run.err();
  EXPECT_THAT(run.out(),
              AllOf(HasSubstr("[0@node-1] out of 0\n"), HasSubstr("[1@node-2] err of 1\n")));
  for (const char* rank : {"0", "1"}) {
    const Json seen = Json::parse(box_.Read(std::string("seen.") + rank));
    EXPECT_EQ(seen["argv"], Json({"", "a b", "$HOME", "it's", "*", "two\nlines", "-v"}));
    EXPECT_EQ(seen["cwd"], box_.path());
    const Json& env = seen["env"];
    EXPECT_EQ(env["RANK"], rank);
    EXPECT_EQ(env["WORLD_SIZE"], "2");
    EXPECT_EQ(env["HF_TOKEN"], "s3cret and\nmore");
    EXPECT_EQ(env["PATH"], "/job/bin:/usr/bin:/bin");
    EXPECT_EQ(env["FROM_IMAGE"], "yes");
    EXPECT_EQ(env["LD_LIBRARY_PATH"], "/image/lib");
    EXPECT_EQ(env["LIBS"], "/agent/lib:/mine");
    EXPECT_EQ(env["OMPI_MCA_btl_vader_single_copy_mechanism"], "none");
    EXPECT_TRUE(env.contains("MASTER_ADDR") && env.contains("MASTER_PORT"));
    EXPECT_FALSE(env.contains("AGENT_ONLY") || env.contains("HOME"));
  }
  for (const Json& call : engine_.Calls("run")) {
    EXPECT_THAT(call["argv"].dump(), Not(HasSubstr("s3cret")));
    // The client itself is found and linked as ever.
    EXPECT_EQ(call["env"]["PATH"], box_.Path("bin") + ":/usr/bin:/bin");
  }
  EXPECT_THAT(run.err(), HasSubstr("refers to LD_LIBRARY_PATH"));
  ExpectNothingLeft();
}

TEST_F(RunContainer, FlagsCanAskForOne) {
  CommandRun plan = box_.Run(
      {"spawn", "--hostfile", "hosts", "--container", "img:1", "--dry-run", "--no_python", "sh"});
  EXPECT_EQ(plan.Wait(), 0) << plan.err();
  EXPECT_EQ(Json::parse(plan.out())["container"]["image"], "img:1");
  CommandRun run = box_.Run({"spawn", "--hostfile", "hosts", "--container", "img:1", "--no_python",
                             "sh", "-c", "echo $FROM_IMAGE"});
  EXPECT_EQ(run.Wait(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("[1@node-2] yes\n"));
  CommandRun wrong = box_.Run({"spawn", "--hostfile", "hosts", "--container=-x", "r.py"});
  EXPECT_EQ(wrong.Wait(), 2);
  EXPECT_THAT(wrong.err(), HasSubstr("--container: '-x' is an option, not an image"));
}

TEST_F(RunContainer, TheExitCodeIsThatOfTheContainer) {
  for (const auto& [command, status] :
       {std::pair("exit 7", 7), std::pair("kill -9 $$", 137), std::pair("exit 127", 127)}) {
    WriteJob(std::string("command: [sh, -c, '[ $RANK = 0 ] || exec sleep 60; ") + command + "']\n");
    CommandRun run = Run();
    EXPECT_EQ(run.Wait(), status) << run.err();
    EXPECT_THAT(run.err(), AllOf(HasSubstr("rank 0"), Not(HasSubstr("could not be started"))));
    ExpectNothingLeft();
  }
}

TEST_F(RunContainer, WhatTheEngineCouldNotStartIsToldAsThat) {
  WriteJob("command: [/no/such/program]\n");
  CommandRun run = Run();
  EXPECT_EQ(run.Wait(), 127) << run.err();
  EXPECT_THAT(run.err(), AllOf(HasSubstr("docker did not start the container and ended with 127"),
                               HasSubstr("the program is not in the image; docker said: cannot "
                                         "execute /no/such/program")));
  box_.Write("engine/faults/broken", "");
  CommandRun broken = Run();
  // The engine's failure is not one of the program.
  EXPECT_EQ(broken.Wait(), 125) << broken.err();
  EXPECT_THAT(broken.err(),
              AllOf(HasSubstr("docker did not start the container and ended with 125"),
                    HasSubstr("docker said: the engine is broken"), HasSubstr("docker info"),
                    Not(HasSubstr("the program"))));
  ExpectNothingLeft();
}

TEST_F(RunContainer, NothingStartsWithoutTheImageOrTheEngine) {
  box_.Write("job.yaml", "hostfile: hosts\ncommand: ['true']\ncontainer: {image: other}\n");
  CommandRun run = Run();
  EXPECT_EQ(run.Wait(), 120) << run.err();
  EXPECT_THAT(run.err(), AllOf(HasSubstr("node-1"), HasSubstr("no such image: other"),
                               HasSubstr("docker pull other")));
  EXPECT_THAT(engine_.Calls("run"), IsEmpty());

  box_.Set("PATH", "/nowhere");
  box_.Write("job.yaml", "hostfile: hosts\ncommand: ['true']\ncontainer: {image: 'img:1'}\n");
  CommandRun none = Run();
  EXPECT_EQ(none.Wait(), 120) << none.err();
  EXPECT_THAT(none.err(), AllOf(HasSubstr("node-2"), HasSubstr("neither docker nor podman")));
}

TEST_F(RunContainer, AnEngineThatDoesNotWorkIsPassedOverForOneThatDoes) {
  const StandInEngine podman(box_, "podman");
  box_.Write("engine/faults/down", "");
  WriteJob("command: ['true']\n");
  CommandRun run = Run();
  EXPECT_EQ(run.Wait(), 0) << run.err();
  EXPECT_EQ(podman.Calls("run").size(), 2u);
  EXPECT_THAT(run.err(), AllOf(HasSubstr("podman runs the containers"),
                               HasSubstr("docker: exit status 1: Cannot connect to the daemon"),
                               HasSubstr("systemctl start docker")));

  box_.Write("engine-podman/faults/down", "");
  CommandRun none = Run();
  EXPECT_EQ(none.Wait(), 120) << none.err();
  EXPECT_THAT(none.err(),
              AllOf(HasSubstr("no engine works here"), HasSubstr("docker: exit status 1"),
                    HasSubstr("podman: exit status 1"), HasSubstr("run \"podman info\""),
                    Not(HasSubstr("pull"))));
}

TEST_F(RunContainer, SignalsReachTheProgram) {
  WriteJob(
      "command: [sh, -c, 'trap \"echo stopping; exit 5\" TERM; touch up.$RANK; while :; do sleep "
      "0.05; done']\n"
      "log_dir: logs\n");
  CommandRun run = Start();
  ASSERT_TRUE(box_.WaitFor("up.0") && box_.WaitFor("up.1")) << run.err();
  run.Send(SIGTERM);
  EXPECT_EQ(run.Wait(), 143) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("[1@node-2] stopping\n"));
  ExpectNothingLeft();
}

TEST_F(RunContainer, OneThatIgnoresTheEndIsKilledAfterTheGrace) {
  CommandRun run = StartDeaf();
  run.Send(SIGINT);
  EXPECT_EQ(run.Wait(), 130) << run.err();
  ExpectNothingLeft(Seconds(0.1));
}

TEST_F(RunContainer, NothingIsLeftWhenItsClientIsKilled) {
  CommandRun run = StartDeaf();
  ::kill(engine_.Client("1"), SIGKILL);
  EXPECT_EQ(run.Wait(), 137) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("rank 1"));
  ExpectNothingLeft(Seconds(0.1));
}

TEST_F(RunContainer, NothingIsLeftWhenTheShimIsKilled) {
  CommandRun run = StartDeaf();
  ::kill(StandInEngine::Parent(engine_.Client("1")), SIGKILL);
  EXPECT_EQ(run.Wait(), 121) << run.err();
  ExpectNothingLeft(Seconds(0.1));
}

TEST_F(RunContainer, NothingIsLeftWhenTheAgentIsKilled) {
  CommandRun run = StartDeaf("on_coordinator_loss: stop-after 3s\n");
  const std::vector<pid_t> agents = box_.Agents("node-2");
  ASSERT_EQ(agents.size(), 1u);
  ::kill(agents[0], SIGKILL);
  EXPECT_EQ(run.Wait(), 121) << run.err();
  ExpectNothingLeft();
}

TEST_F(RunContainer, NothingIsLeftWhenTheCoordinatorIsKilled) {
  CommandRun run = StartDeaf("on_coordinator_loss: stop-after 3s\n");
  run.Send(SIGKILL);
  run.Wait();
  ExpectNothingLeft();
}

TEST_F(RunContainer, ContainersOfOthersStay) {
  CommandRun other = box_.StartProgram(box_.Path("bin/docker"),
                                       {"run", "--name=muster-j-1-0", "--label=muster.job=j",
                                        "--label=muster.attempt=1", "img:1", "sleep", "60"});
  ASSERT_TRUE(WaitUntil([&] { return Containers().size() == 1; }));
  WriteJob("command: ['false']\n");
  CommandRun run = Run();
  EXPECT_EQ(run.Wait(), 1) << run.err();
  ASSERT_EQ(Containers().size(), 1u);
  EXPECT_EQ(Containers()[0]["running"], true);
  other.Send(SIGTERM);
  EXPECT_EQ(other.Wait(), 143) << other.err();
}

TEST_F(RunContainer, AnEngineThatDoesNotAnswerAtTheEndIsNamedAndWaitedFor) {
  CommandRun run = StartDeaf();
  box_.Write("engine/faults/deaf", "");
  run.Send(SIGINT);
  EXPECT_EQ(run.Wait(), 121) << run.err();
  EXPECT_THAT(run.err(), AllOf(HasSubstr("docker does not say which containers are left"),
                               HasSubstr("node-1"), HasSubstr("node-2")));
  // The shims go on asking.
  fs::remove(box_.Path("engine/faults/deaf"));
  ExpectNothingLeft();
}

// What a test program does that is killed in the next test; alone it does nothing.
TEST_F(RunContainer, DISABLED_IsLeftAlone) {
  const char* const out = std::getenv("LEFT_ALONE");
  if (out == nullptr) GTEST_SKIP() << "for the test of what is killed only";
  const CommandRun run = StartDeaf();
  const std::string name = out;
  std::ofstream stream(name + ".new");
  stream << box_.path() << "\n";
  for (const pid_t pid : box_.Processes()) stream << pid << "\n";
  // Programs in containers carry no mark.
  for (const pid_t pid : pids_) stream << pid << "\n";
  stream.close();
  fs::rename(name + ".new", name);
  ::pause();
}

TEST_F(RunContainer, NothingIsLeftWhenTheTestProgramIsKilled) {
  box_.Set("LEFT_ALONE", box_.Path("left"));
  CommandRun tests = box_.StartProgram(
      "/proc/self/exe",
      {"--gtest_also_run_disabled_tests", "--gtest_filter=RunContainer.DISABLED_IsLeftAlone"});
  ASSERT_TRUE(box_.WaitFor("left")) << tests.out();
  tests.Send(SIGKILL);
  std::istringstream left(box_.Read("left"));
  std::string folder;
  ASSERT_TRUE(std::getline(left, folder));
  std::vector<pid_t> pids;
  for (pid_t pid = 0; left >> pid;) pids.push_back(pid);
  // Two agents, two shims, two clients and two programs at least; others come and go.
  EXPECT_GE(pids.size(), 8u);
  for (const pid_t pid : pids) {
    EXPECT_TRUE(WaitUntil([&] { return Sandbox::Words(pid).empty(); }, Seconds(30))) << pid;
  }
  EXPECT_TRUE(WaitUntil([&] { return !fs::exists(folder); }));
}

}  // namespace
}  // namespace muster
