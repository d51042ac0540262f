// What signals do to `coordinator spawn --local`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/integration/cli/command_run.h"

namespace muster {
namespace {

using testing::CommandRun;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Sandbox;
using testing::Seconds;

// Has a child and a child in a session of its own; `deaf` ignores signals.
constexpr char kFamily[] = R"(import os, signal, subprocess, sys, time
if sys.argv[1] == 'deaf':
    for s in (signal.SIGINT, signal.SIGTERM):
        signal.signal(s, signal.SIG_IGN)
subprocess.Popen(['sleep', '300'])
subprocess.Popen(['sleep', '300'], start_new_session=True)
open('up.' + os.environ['RANK'], 'w').close()
while True:
    time.sleep(1)
)";

class RunSignal : public ::testing::Test {
 protected:
  CommandRun StartFamily(const std::string& hearing) {
    box_.Hosts(2, 2);
    box_.Write("r.py", kFamily);
    CommandRun run = box_.Start({"spawn", "--hostfile", "hosts", "--grace", "3", "r.py", hearing});
    for (int rank = 0; rank < 4; ++rank) {
      EXPECT_TRUE(box_.WaitFor("up." + std::to_string(rank))) << run.err();
    }
    return run;
  }

  Sandbox box_;
};

TEST_F(RunSignal, InterruptStopsEverythingThatWasStarted) {
  CommandRun run = StartFamily("hears");
  run.SendToGroup(SIGINT);
  EXPECT_EQ(run.Wait(Seconds(8)), 130) << run.err();
  EXPECT_THAT(box_.Processes(), IsEmpty());
  EXPECT_THAT(run.err(), HasSubstr("again to kill them now"));
}

TEST_F(RunSignal, DeafRanksAreKilledAfterTheGrace) {
  CommandRun run = StartFamily("deaf");
  run.SendToGroup(SIGINT);
  EXPECT_EQ(run.Wait(Seconds(10)), 130) << run.err();
  EXPECT_THAT(box_.Processes(), IsEmpty());
}

TEST_F(RunSignal, SecondInterruptKillsAtOnce) {
  CommandRun run = StartFamily("deaf");
  run.SendToGroup(SIGINT);
  EXPECT_TRUE(testing::WaitUntil([&] { return run.err().find("SIGINT") != std::string::npos; }));
  run.SendToGroup(SIGINT);
  EXPECT_EQ(run.Wait(Seconds(3)), 130) << run.err();
  EXPECT_THAT(box_.Processes(), IsEmpty());
}

TEST_F(RunSignal, TerminationLeavesTimeForACheckpoint) {
  box_.Hosts(2, 1);
  box_.Write("r.py", R"(import os, signal, time
r = os.environ['RANK']
stop = []
signal.signal(signal.SIGTERM, lambda *a: stop.append(1))
signal.signal(signal.SIGUSR1, lambda *a: open('usr1.' + r, 'w').close())
open('up.' + r, 'w').close()
while not stop:
    time.sleep(0.05)
time.sleep(1)
open('saved.' + r, 'w').close()
)");
  CommandRun run = box_.Start({"spawn", "--hostfile", "hosts", "--grace", "20", "r.py"});
  ASSERT_TRUE(box_.WaitFor("up.0") && box_.WaitFor("up.1")) << run.err();
  run.Send(SIGUSR1);
  EXPECT_TRUE(box_.WaitFor("usr1.0") && box_.WaitFor("usr1.1")) << run.err();
  run.Send(SIGTERM);
  EXPECT_EQ(run.Wait(Seconds(10)), 143) << run.err();
  EXPECT_TRUE(box_.Has("saved.0") && box_.Has("saved.1"));
}

TEST_F(RunSignal, InterruptBeforeTheStartLeavesNothing) {
  box_.Write("hosts", "node-1 slots=1\n192.0.2.9 slots=1\n");
  box_.Write("r.py", "open('started','w')\n");
  CommandRun run = box_.Start({"spawn", "--hostfile", "hosts", "r.py"});
  ASSERT_TRUE(testing::WaitUntil([&] { return run.err().find("192.0.2.9") != std::string::npos; }))
      << run.err();
  run.Send(SIGINT);
  EXPECT_EQ(run.Wait(Seconds(8)), 130) << run.err();
  EXPECT_FALSE(box_.Has("started"));
  EXPECT_THAT(box_.Processes(), IsEmpty());
}

}  // namespace
}  // namespace muster
