// What signals do to `coordinator spawn --local`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/integration/sandbox/command_run.h"

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

// Saves behind the gate `save` when it is told to end, with the help of a child that writes down
// whether it was told too.
constexpr char kSaver[] = R"(import os, signal, subprocess, sys, time
r = os.environ['RANK']
helper = subprocess.Popen(['sh', '-c', 'trap "touch helper_told.$0" TERM; read line', r],
                          stdin=subprocess.PIPE)
for name in ('USR1', 'USR2'):
    signal.signal(getattr(signal, 'SIG' + name),
                  lambda number, frame, name=name: open(name + '.' + r, 'w').close())
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
open('up.' + r, 'w').close()
while signal.sigtimedwait({signal.SIGTERM}, 0.2) is None:
    pass
open('told.' + r, 'w').close()
while not os.path.exists('save'):
    time.sleep(0.02)
if helper.poll() is None:
    open('saved.' + r, 'w').close()
)";

TEST_F(RunSignal, TerminationLeavesTimeForACheckpoint) {
  box_.Hosts(2, 1);
  box_.Write("r.py", kSaver);
  CommandRun run = box_.Start({"spawn", "--hostfile", "hosts", "--grace", "60", "r.py"});
  ASSERT_TRUE(box_.WaitFor("up.0") && box_.WaitFor("up.1")) << run.err();
  run.Send(SIGUSR1);
  EXPECT_TRUE(box_.WaitFor("USR1.0") && box_.WaitFor("USR1.1")) << run.err();
  run.Send(SIGUSR2);
  EXPECT_TRUE(box_.WaitFor("USR2.0") && box_.WaitFor("USR2.1")) << run.err();
  run.Send(SIGTERM);
  EXPECT_TRUE(box_.WaitFor("told.0") && box_.WaitFor("told.1")) << run.err();
  EXPECT_FALSE(box_.Has("helper_told.0") || box_.Has("helper_told.1"));
  box_.Write("save", "");
  // Well before the grace is over: nobody waits for helpers of ranks that are gone.
  EXPECT_EQ(run.Wait(Seconds(30)), 143) << run.err();
  EXPECT_TRUE(box_.Has("saved.0") && box_.Has("saved.1"));
  EXPECT_THAT(box_.Processes(), IsEmpty());
}

TEST_F(RunSignal, TheGraceEndsACheckpointThatTakesTooLong) {
  box_.Hosts(2, 1);
  box_.Write("r.py", kSaver);
  CommandRun run = box_.Start({"spawn", "--hostfile", "hosts", "--grace", "1", "r.py"});
  ASSERT_TRUE(box_.WaitFor("up.0") && box_.WaitFor("up.1")) << run.err();
  run.Send(SIGTERM);
  EXPECT_EQ(run.Wait(Seconds(30)), 143) << run.err();
  EXPECT_TRUE(box_.Has("told.0") && box_.Has("told.1"));
  EXPECT_FALSE(box_.Has("saved.0") || box_.Has("saved.1"));
  EXPECT_THAT(box_.Processes(), IsEmpty());
}

TEST_F(RunSignal, InterruptReachesOnlyItsOwnJob) {
  box_.Write("hosts", "node-1 slots=4\n");
  box_.Write("r.py", R"(import os, sys, time
open(sys.argv[1] + '.port', 'w').write(os.environ['MASTER_PORT'])
open(sys.argv[1] + '.up', 'w').close()
while not os.path.exists('go'):
    time.sleep(0.02)
)");
  CommandRun first =
      box_.Start({"spawn", "--hostfile", "hosts", "--include", "node-1:0", "r.py", "first"});
  CommandRun second =
      box_.Start({"spawn", "--hostfile", "hosts", "--include", "node-1:1", "r.py", "second"});
  ASSERT_TRUE(box_.WaitFor("first.up") && box_.WaitFor("second.up")) << first.err() << second.err();
  EXPECT_NE(box_.Read("first.port"), box_.Read("second.port"));
  second.SendToGroup(SIGINT);
  EXPECT_EQ(second.Wait(Seconds(10)), 130) << second.err();
  EXPECT_FALSE(first.ended());
  box_.Write("go", "");
  EXPECT_EQ(first.Wait(), 0) << first.err();
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
