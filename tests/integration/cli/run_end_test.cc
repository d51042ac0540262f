// How `coordinator spawn --local` ends: exit status, and the last lines on stderr.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/integration/sandbox/command_run.h"

namespace muster {
namespace {

using ::testing::AllOf;
using testing::CommandRun;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Sandbox;
using testing::Seconds;
using testing::WaitUntil;

// Rank `argv[2]` ends as `argv[1]` says: a code, a signal's number behind an s, or an exception.
// The others sleep.
constexpr char kEnd[] = R"(import os, sys, time
how, who = sys.argv[1], int(sys.argv[2])
if int(os.environ['RANK']) != who:
    time.sleep(600)
print('about to end', flush=True)
if how[0] == 's':
    os.kill(os.getpid(), int(how[1:]))
    time.sleep(9)
if how == 'raise':
    raise ValueError('bad shape')
os._exit(int(how))
)";

struct Ending {
  std::string how;
  int rank;
  int status;
  std::string says;
};

class RunEnds : public ::testing::TestWithParam<Ending> {};

TEST_P(RunEnds, WithTheStatusOfTheFirstFailure) {
  Sandbox box;
  box.Hosts(2, 1);
  box.Write("r.py", kEnd);
  const Ending& ending = GetParam();
  CommandRun run = box.Run({"spawn", "--hostfile", "hosts", "--grace", "2", "r.py", ending.how,
                            std::to_string(ending.rank)});
  EXPECT_EQ(run.Wait(), ending.status) << run.err();
  const std::string node = "node-" + std::to_string(ending.rank + 1);
  EXPECT_THAT(run.err(), HasSubstr("rank " + std::to_string(ending.rank) + " on " + node));
  EXPECT_THAT(run.err(), HasSubstr(ending.says));
  EXPECT_THAT(run.err(), HasSubstr("| about to end\n"));
  EXPECT_THAT(run.err(), HasSubstr("1 other rank was stopped because of it"));
  EXPECT_THAT(box.Processes(), ::testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(CodesAndSignals, RunEnds,
                         ::testing::Values(Ending{"7", 1, 7, "exited with code 7"},
                                           Ending{"255", 0, 255, "exited with code 255"},
                                           Ending{"s9", 1, 137, "SIGKILL (signal 9)"},
                                           Ending{"s9", 0, 137, "out-of-memory"},
                                           Ending{"s7", 1, 135, "/dev/shm"},
                                           Ending{"s11", 1, 139, "SIGSEGV"},
                                           Ending{"s15", 1, 143, "SIGTERM"},
                                           Ending{"raise", 0, 1, "| ValueError: bad shape\n"}));

TEST(Run, SucceedsWithASummary) {
  Sandbox box;
  box.Hosts(2, 2);
  box.Write("r.py", "print('hello')\n");
  CommandRun run = box.Run({"spawn", "--hostfile", "hosts", "--log_dir", "logs", "r.py"});
  EXPECT_EQ(run.Wait(), 0) << run.err();
  EXPECT_THAT(run.err(), AllOf(HasSubstr("succeeded: 4 ranks on 2 nodes"), HasSubstr("started in"),
                               HasSubstr("/logs/"), HasSubstr("0 bytes lost")));
  for (const char* label : {"[0@node-1] hello\n", "[3@node-2] hello\n"}) {
    EXPECT_THAT(run.out(), HasSubstr(label));
  }
  EXPECT_THAT(box.Processes(), ::testing::IsEmpty());
}

TEST(Run, NamesTheLogOfTheRankThatFailed) {
  Sandbox box;
  box.Hosts(2, 2);
  box.Write("r.py", kEnd);
  CommandRun run = box.Run(
      {"spawn", "--hostfile", "hosts", "--log-dir", "logs", "--grace", "2", "r.py", "5", "2"});
  EXPECT_EQ(run.Wait(), 5);
  EXPECT_THAT(run.err(), HasSubstr("rank 2 on node-2"));
  EXPECT_THAT(run.err(), ContainsRegex("logs/[^ ]*/rank_2\\.log"));
  EXPECT_EQ(box.Read("logs/latest/rank_2.log"), "about to end\n");
  EXPECT_THAT(run.err(), HasSubstr("3 other ranks were stopped because of it"));
}

TEST(Run, KeepsQuietWhenAsked) {
  Sandbox box;
  box.Hosts(1, 1);
  box.Write("r.py", "pass\n");
  CommandRun run = box.Run({"spawn", "-q", "--hostfile", "hosts", "r.py"});
  EXPECT_EQ(run.Wait(), 0);
  EXPECT_EQ(run.err(), "");
}

TEST(Run, PrintsTheJobAsJson) {
  Sandbox box;
  box.Hosts(1, 2);
  box.Write("r.py", kEnd);
  CommandRun run = box.Run({"spawn", "-o", "json", "--hostfile", "hosts", "r.py", "s9", "1"});
  EXPECT_EQ(run.Wait(), 137);
  EXPECT_THAT(run.out(),
              AllOf(HasSubstr("\"cause\": \"rank-failed\""), HasSubstr("\"exit_status\": 137"),
                    HasSubstr("\"signal_name\": \"SIGKILL\"")));
  EXPECT_THAT(run.out(), Not(HasSubstr("about to end")));
}

TEST(Run, NamesANodeWhoseAgentDied) {
  Sandbox box;
  box.Hosts(2, 1);
  box.Write("r.py", "import os,time\nopen('up.'+os.environ['RANK'],'w')\ntime.sleep(300)\n");
  CommandRun run = box.Start({"spawn", "--hostfile", "hosts", "--grace", "2", "r.py"});
  ASSERT_TRUE(box.WaitFor("up.0") && box.WaitFor("up.1")) << run.err();
  const std::vector<pid_t> agents = box.Agents("node-2");
  ASSERT_EQ(agents.size(), 1u);
  ::kill(agents[0], SIGKILL);
  EXPECT_EQ(run.Wait(Seconds(30)), 121) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("node-2"));
  EXPECT_TRUE(WaitUntil([&] { return box.Processes().empty(); }, Seconds(30)));
}

TEST(Run, BlamesNoRankWhenAnAgentIsToldToLeave) {
  for (const int signal : {SIGTERM, SIGINT}) {
    Sandbox box;
    box.Hosts(2, 1);
    box.Write("r.py", "import os,time\nopen('up.'+os.environ['RANK'],'w')\ntime.sleep(300)\n");
    CommandRun run = box.Start({"spawn", "--hostfile", "hosts", "--grace", "2", "r.py"});
    ASSERT_TRUE(box.WaitFor("up.0") && box.WaitFor("up.1")) << run.err();
    const std::vector<pid_t> agents = box.Agents("node-2");
    ASSERT_EQ(agents.size(), 1u);
    ::kill(agents[0], signal);
    EXPECT_EQ(run.Wait(Seconds(30)), 121) << run.err();
    EXPECT_THAT(run.err(), HasSubstr(std::string("the agent of this node was told to leave by ") +
                                     (signal == SIGTERM ? "SIGTERM" : "SIGINT")));
    EXPECT_TRUE(WaitUntil([&] { return box.Processes().empty(); }, Seconds(30)));
  }
}

TEST(Run, LeavesNothingBehindWhenItIsKilled) {
  Sandbox box;
  box.Hosts(2, 1);
  box.Write("r.py", "import os,time\nopen('up.'+os.environ['RANK'],'w')\ntime.sleep(300)\n");
  CommandRun run = box.Start({"spawn", "--hostfile", "hosts", "--grace", "2", "r.py"});
  ASSERT_TRUE(box.WaitFor("up.0") && box.WaitFor("up.1")) << run.err();
  run.Send(SIGKILL);
  run.Wait();
  EXPECT_TRUE(WaitUntil([&] { return box.Processes().empty(); }, Seconds(30)));
  // The slots are free again.
  box.Write("ok.py", "pass\n");
  CommandRun next = box.Run({"spawn", "--hostfile", "hosts", "ok.py"});
  EXPECT_EQ(next.Wait(), 0) << next.err();
}

TEST(RunRestarts, AreToldAsWhatTheyAre) {
  Sandbox box;
  box.Hosts(2, 1);
  // The first attempt fails beside a rank that takes its time to end.
  box.Write("job.yaml",
            "hostfile: hosts\ngrace: 5s\nrestart: {max_attempts: 2}\n"
            "command: [sh, -c, '[ $MUSTER_ATTEMPT = 2 ] && exit 0; [ $RANK = 1 ] && exit 7; "
            "trap \"sleep 1; exit 0\" TERM; sleep 600 & wait']\n");
  CommandRun run = box.Run({"submit", "job.yaml"});
  EXPECT_EQ(run.Wait(), 0) << run.err();
  EXPECT_THAT(run.err(), ContainsRegex("warning: attempt 1 of 2 failed, trying again: "
                                       "rank 1 on node-2 \\(pid [0-9]+\\) exited with code 7"));
  EXPECT_THAT(run.err(), Not(HasSubstr("muster: failed\n")));
  EXPECT_THAT(run.err(), HasSubstr("succeeded"));
}

}  // namespace
}  // namespace muster
