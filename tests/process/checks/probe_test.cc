// Probes: the real program, asked by the agent's side.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "agent/checks/probe_process.h"
#include "tests/testing/temp_folder.h"

namespace muster::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

class ProbeTest : public ::testing::Test {
 protected:
  ProbeTest() {
    internal::ShimBootstrap& bootstrap = *request_.mutable_bootstrap();
    bootstrap.set_working_directory(folder_.path());
    internal::ShimRank& rank = *bootstrap.add_ranks();
    rank.add_argv("sh");
    rank.add_env("PATH=/usr/bin:/bin");
    rank.add_env("WHO=rank");
  }
  ProbeAnswer Run(milliseconds limit = std::chrono::seconds(20)) {
    ProbeAnswer result;
    ProbeRunner probes(loop_, shim_, {});
    probes.Run(request_, limit, [&](ProbeAnswer answer) {
      result = std::move(answer);
      loop_.Stop();
    });
    loop_.Run();
    return result;
  }
  void AddProgram(const std::string& script) {
    internal::ProbeProgram& program = *request_.add_programs();
    program.set_name("it");
    for (const std::string& word : {std::string("sh"), std::string("-c"), script}) {
      program.add_argv(word);
    }
  }

  TempFolder folder_;
  EventLoop loop_;
  std::string shim_ = SHIM_PROGRAM;
  internal::ProbeRequest request_;
};

TEST_F(ProbeTest, AStartThatCanBeMadeHasNoProblems) {
  request_.set_check_exec(true);
  const ProbeAnswer answer = Run();
  EXPECT_TRUE(answer.complete) << answer.error;
  ASSERT_EQ(answer.replies.size(), 2u);
  EXPECT_TRUE(answer.replies[0].exec_checked());
}

TEST_F(ProbeTest, ProblemsAreThoseOfAStart) {
  request_.set_check_exec(true);
  request_.mutable_bootstrap()->set_script("train.py");
  const ProbeAnswer answer = Run();
  ASSERT_EQ(answer.replies.size(), 3u);
  EXPECT_EQ(answer.replies[0].problem().check(), "script");
  EXPECT_THAT(answer.replies[0].problem().message(), HasSubstr("'train.py'"));
}

TEST_F(ProbeTest, PathsAreLookedAt) {
  std::ofstream(folder_.File("there")) << "x";
  for (const auto& [path, writable] :
       {std::pair("there", false), std::pair("not-there", false), std::pair("there", true),
        std::pair("new/", true), std::pair("no/new", true), std::pair(".", true)}) {
    internal::ProbePath& one = *request_.add_paths();
    one.set_path(path);
    one.set_writable_folder(writable);
  }
  const ProbeAnswer answer = Run();
  ASSERT_EQ(answer.replies.size(), 7u);
  EXPECT_EQ(answer.replies[0].path().reason(), "");
  EXPECT_THAT(answer.replies[1].path().reason(), HasSubstr("ENOENT"));
  EXPECT_EQ(answer.replies[2].path().reason(), "it is no folder");
  EXPECT_EQ(answer.replies[3].path().reason(), "");
  EXPECT_THAT(answer.replies[4].path().reason(), HasSubstr("cannot be made"));
  EXPECT_EQ(answer.replies[5].path().reason(), "");
  // It looks, and makes nothing.
  EXPECT_NE(::access(folder_.File("new").c_str(), F_OK), 0);
}

TEST_F(ProbeTest, ProgramsRunWithTheEnvironmentOfRanks) {
  AddProgram("echo $WHO in $(pwd); echo lost >&2");
  const ProbeAnswer answer = Run();
  ASSERT_EQ(answer.replies.size(), 2u);
  EXPECT_THAT(answer.replies[0].program().output(), HasSubstr("rank in /"));
  EXPECT_EQ(answer.replies[0].program().reason(), "");
}

TEST_F(ProbeTest, ProgramsThatFailOrAreNotThereAreTold) {
  AddProgram("echo no such daemon >&2; exit 3");
  request_.add_programs()->add_argv("no-such-program");
  const ProbeAnswer answer = Run();
  ASSERT_EQ(answer.replies.size(), 3u);
  EXPECT_EQ(answer.replies[0].program().reason(), "exit status 3: no such daemon");
  EXPECT_TRUE(answer.replies[1].program().absent());
}

TEST_F(ProbeTest, AProgramThatHangsIsKilledAndWhatWasToldBeforeCounts) {
  request_.set_check_exec(true);
  // It tells who it is, so that its end can be seen.
  AddProgram("echo $$ > pid; exec sleep 1000");
  ProbeAnswer result;
  ProbeRunner probes(loop_, shim_, {});
  // It is let hang first, however slow the machine is: the limit runs out when the file is there.
  probes.Run(request_, milliseconds(1500), [&](ProbeAnswer answer) {
    result = std::move(answer);
    loop_.Stop();
  });
  loop_.Run();
  EXPECT_FALSE(result.complete);
  ASSERT_FALSE(result.replies.empty());
  EXPECT_TRUE(result.replies[0].exec_checked());
  std::ifstream stream(folder_.File("pid"));
  pid_t pid = 0;
  if (!(stream >> pid)) GTEST_SKIP() << "the machine was too slow to start the program";
  // Killed; its parent is gone, too, and init reaps it.
  for (int i = 0; i < 1000 && ::kill(pid, 0) == 0; ++i) {
    loop_.PostAfter(milliseconds(10), [this] { loop_.Stop(); });
    loop_.Run();
  }
  EXPECT_NE(::kill(pid, 0), 0);
}

TEST_F(ProbeTest, AProgramThatEndsLeavesNothingBehind) {
  AddProgram("sleep 1000 < /dev/null > /dev/null 2>&1 & echo $! > pid; echo it");
  EXPECT_TRUE(Run().complete);
  std::ifstream stream(folder_.File("pid"));
  pid_t pid = 0;
  ASSERT_TRUE(stream >> pid);
  for (int i = 0; i < 1000 && ::kill(pid, 0) == 0; ++i) {
    loop_.PostAfter(milliseconds(10), [this] { loop_.Stop(); });
    loop_.Run();
  }
  EXPECT_NE(::kill(pid, 0), 0);
}

TEST_F(ProbeTest, AnotherSessionIsNoPlaceToHideIn) {
  for (const char* rest : {"echo it", "exec sleep 1000"}) {
    request_.clear_programs();
    AddProgram(std::string("setsid sleep 1000 < /dev/null > /dev/null 2>&1 & echo $! > pid; ") +
               rest);
    Run(milliseconds(1500));
    std::ifstream stream(folder_.File("pid"));
    pid_t pid = 0;
    if (!(stream >> pid)) GTEST_SKIP() << "the machine was too slow to start the program";
    for (int i = 0; i < 1000 && ::kill(pid, 0) == 0; ++i) {
      loop_.PostAfter(milliseconds(10), [this] { loop_.Stop(); });
      loop_.Run();
    }
    EXPECT_NE(::kill(pid, 0), 0) << rest;
  }
}

// What holds the pipes may fill them for ever.
TEST_F(ProbeTest, WhatIsLeftBehindAndWritesForEverIsNotListenedTo) {
  AddProgram(
      "setsid sh -c 'for i in 1 2 3 4 5 6 7 8; do yes & done; echo $! > pid; wait' & "
      "while [ ! -s pid ]; do :; done; echo it >&2");
  EXPECT_TRUE(Run(std::chrono::seconds(5)).complete);
  std::ifstream stream(folder_.File("pid"));
  pid_t pid = 0;
  ASSERT_TRUE(stream >> pid);
  for (int i = 0; i < 1000 && ::kill(pid, 0) == 0; ++i) {
    loop_.PostAfter(milliseconds(10), [this] { loop_.Stop(); });
    loop_.Run();
  }
  EXPECT_NE(::kill(pid, 0), 0);
}

TEST_F(ProbeTest, AMissingDirectoryIsOneProblemAndNotOneOfEveryProgram) {
  request_.set_check_exec(true);
  request_.mutable_bootstrap()->set_working_directory("/no/such");
  AddProgram("pwd");
  const ProbeAnswer answer = Run();
  ASSERT_EQ(answer.replies.size(), 4u);
  EXPECT_THAT(answer.replies[0].problem().message(), HasSubstr("/no/such"));
  EXPECT_EQ(answer.replies[2].program().reason(), "");
  EXPECT_EQ(answer.replies[2].program().output(), "/\n");
}

TEST_F(ProbeTest, AProgramThatIsMissingIsAnError) {
  shim_ = "/nowhere/muster-shim";
  const ProbeAnswer answer = Run();
  EXPECT_FALSE(answer.complete);
  EXPECT_THAT(answer.error, HasSubstr("/nowhere/muster-shim"));
}

TEST_F(ProbeTest, TheTextOfAFileIsToldWhenItIsAskedFor) {
  std::ofstream(folder_.File("net.json")) << "{}";
  std::ofstream(folder_.File("long")) << std::string(70'000, 'x');
  for (const char* path : {"net.json", "long", "none"}) {
    internal::ProbePath& one = *request_.add_paths();
    one.set_path(path);
    one.set_with_text(true);
  }
  const ProbeAnswer answer = Run();
  ASSERT_EQ(answer.replies.size(), 4u);
  EXPECT_EQ(answer.replies[0].path().text(), "{}");
  EXPECT_EQ(answer.replies[1].path().text().size(), 65'536u);
  EXPECT_THAT(answer.replies[2].path().reason(), HasSubstr("ENOENT"));
}

TEST_F(ProbeTest, ProgramsOutsideOfPathAreFoundInTheirFolders) {
  const std::string program = folder_.File("fi_pingpong");
  std::ofstream(program) << "#!/bin/sh\ntouch ran\n";
  ASSERT_EQ(::chmod(program.c_str(), 0755), 0);
  internal::ProbeProgram& one = *request_.add_programs();
  one.add_argv("fi_pingpong");
  one.add_folders("/nowhere");
  one.add_folders(folder_.path());
  one.set_find_only(true);
  const ProbeAnswer answer = Run();
  ASSERT_EQ(answer.replies.size(), 2u);
  EXPECT_EQ(answer.replies[0].program().path(), program);
  EXPECT_FALSE(answer.replies[0].program().absent());
  EXPECT_NE(::access(folder_.File("ran").c_str(), F_OK), 0);
}

}  // namespace
}  // namespace muster::testing
