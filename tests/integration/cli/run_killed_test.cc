// What is left of a local run that was cut off.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>

#include <filesystem>
#include <fstream>

#include "tests/integration/sandbox/command_run.h"

namespace muster {
namespace {

using ::testing::AllOf;
using testing::CommandRun;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Sandbox;
using testing::Seconds;
using testing::WaitUntil;

class RunKilled : public ::testing::Test {
 protected:
  RunKilled() {
    box_.Hosts(2, 1);
    box_.Write("r.py", R"(import os, time
print('early words', flush=True)
open('up.' + os.environ['RANK'], 'w').close()
while not os.path.exists('go'):
    time.sleep(0.01)
print('x' * 20000)
print('late words of', os.environ['RANK'], flush=True)
open('said.' + os.environ['RANK'], 'w').close()
time.sleep(300)
)");
  }

  CommandRun StartJob() {
    CommandRun run =
        box_.Start({"spawn", "--hostfile", "hosts", "--log_dir", "logs", "--grace", "2", "r.py"});
    EXPECT_TRUE(box_.WaitFor("up.0") && box_.WaitFor("up.1") && box_.WaitFor("logs/latest"))
        << run.err();
    job_ = std::filesystem::read_symlink(box_.Path("logs/latest"));
    return run;
  }
  // Lets the ranks say their last words, and waits until nothing of the job is left.
  void AwaitNothing() {
    box_.Write("go", "");
    EXPECT_TRUE(box_.WaitFor("said.0") && box_.WaitFor("said.1"));
    EXPECT_TRUE(WaitUntil([&] { return box_.Processes().empty(); }, Seconds(40)));
  }
  void ExpectAllOutput() {
    for (int round = 0; round < 2; ++round) {
      CommandRun logs = box_.Run({"logs", job_});
      EXPECT_EQ(logs.Wait(), 0) << logs.err();
      EXPECT_THAT(logs.out(), AllOf(HasSubstr("[0@node-1] early words\n"),
                                    HasSubstr("[0@node-1] late words of 0\n"),
                                    HasSubstr("[1@node-2] late words of 1\n")));
    }
  }

  Sandbox box_;
  std::string job_;
};

TEST_F(RunKilled, WhatItsRanksSaidAfterThatIsThere) {
  CommandRun run = StartJob();
  run.Send(SIGKILL);
  run.Wait();
  AwaitNothing();
  ExpectAllOutput();
  CommandRun status = box_.Run({"status", job_});
  EXPECT_EQ(status.Wait(), 0) << status.err();
  EXPECT_THAT(status.out(),
              AllOf(HasSubstr("was killed, and the coordinator with it"),
                    HasSubstr("what is shown is what it knew last"), Not(HasSubstr("0.00 s"))));
  EXPECT_THAT(box_.Run({"status", job_, "-o", "json"}).out(), HasSubstr("\"end_time\": null"));
  EXPECT_THAT(box_.Run({"list"}).out(), Not(HasSubstr("0.00 s")));
}

TEST_F(RunKilled, OutputThatTheDiskHasNoRoomForIsTold) {
  const std::string local = box_.Path("local");
  std::filesystem::create_directory(local);
  if (::mount("tmpfs", local.c_str(), "tmpfs", 0, "size=4m,mode=700") != 0) {
    GTEST_SKIP() << "a small file system can only be mounted as root";
  }
  CommandRun run = StartJob();
  run.Send(SIGKILL);
  run.Wait();
  AwaitNothing();
  {
    std::ofstream file(local + "/fill", std::ios::binary);
    while (file << std::string(4096, 'f') << std::flush) {
    }
  }
  for (const char* command : {"logs", "status"}) {
    CommandRun seen = box_.Run({command, job_});
    EXPECT_EQ(seen.Wait(), 0) << seen.err();
    EXPECT_THAT(seen.err(), HasSubstr("warning: there is more output in"));
  }
  std::filesystem::remove(local + "/fill");
  ExpectAllOutput();
  EXPECT_EQ(::umount2(local.c_str(), MNT_DETACH), 0);
}

TEST_F(RunKilled, WhatARankSaidAfterItsAgentWasKilledIsThere) {
  CommandRun run = StartJob();
  const std::vector<pid_t> agents = box_.Agents("node-2");
  ASSERT_EQ(agents.size(), 1u);
  ::kill(agents[0], SIGKILL);
  AwaitNothing();
  EXPECT_EQ(run.Wait(), 121) << run.err();
  ExpectAllOutput();
}

}  // namespace
}  // namespace muster
