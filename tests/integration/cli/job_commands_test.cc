// The commands that look at a job, live and ended.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>

#include <filesystem>
#include <sstream>

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

class JobCommands : public ::testing::Test {
 protected:
  JobCommands() {
    box_.Hosts(2, 1);
    box_.Write("r.py", R"(import os, signal, sys, time
r = os.environ['RANK']
signal.signal(signal.SIGUSR1, lambda *a: open('usr1.' + r, 'w').close())
print('line of', r, flush=True)
print('error of', r, file=sys.stderr, flush=True)
open('up.' + r, 'w').close()
while not os.path.exists('go'):
    time.sleep(0.05)
sys.exit(int(sys.argv[1]) if r == '1' else 0)
)");
  }

  // Starts the job and returns its id once all ranks run.
  CommandRun StartJob(const std::string& code, std::string* job) {
    CommandRun run =
        box_.Start({"spawn", "--hostfile", "hosts", "--log_dir", "logs", "r.py", code});
    EXPECT_TRUE(box_.WaitFor("up.0") && box_.WaitFor("up.1") && box_.WaitFor("logs/latest"))
        << run.err();
    *job = std::filesystem::read_symlink(box_.Path("logs/latest"));
    return run;
  }

  Sandbox box_;
};

TEST_F(JobCommands, SeeAJobWhoseCoordinatorIsAboutToEnd) {
  std::string job;
  CommandRun run = StartJob("0", &job);
  box_.Write("go", "");
  ASSERT_EQ(run.Wait(), 0) << run.err();
  // As it is between the end of its socket and that of its process.
  const std::string folder = std::filesystem::canonical(box_.Path("local/" + job));
  const UniqueFd lock(::open((folder + "/lock").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(lock.get(), LOCK_EX | LOCK_NB), 0);
  CommandRun logs = box_.Start({"logs", job});
  EXPECT_EQ(logs.Wait(Seconds(0.3)), -1) << logs.err();
  ASSERT_EQ(::flock(lock.get(), LOCK_UN), 0);
  EXPECT_EQ(logs.Wait(), 0) << logs.err();
  EXPECT_THAT(logs.out(), HasSubstr("line of 0"));
}

TEST_F(JobCommands, SeeAJobThatRuns) {
  std::string job;
  CommandRun run = StartJob("0", &job);
  CommandRun status = box_.Run({"status", job});
  EXPECT_EQ(status.Wait(), 0) << status.err();
  EXPECT_THAT(status.out(), AllOf(HasSubstr(job), HasSubstr("running"), HasSubstr("node-2")));
  EXPECT_THAT(box_.Run({"list"}).out(), HasSubstr(job));
  EXPECT_THAT(box_.Run({"list", "-o", "json"}).out(), HasSubstr("\"" + job + "\""));

  CommandRun signal = box_.Run({"signal", job, "USR1", "--rank", "1"});
  EXPECT_EQ(signal.Wait(), 0) << signal.err();
  EXPECT_TRUE(box_.WaitFor("usr1.1"));
  EXPECT_FALSE(box_.Has("usr1.0"));

  CommandRun attached = box_.Start({"attach", job});
  EXPECT_TRUE(WaitUntil([&] {
    return attached.out().find("[1@node-2] line of 1\n") != std::string::npos;
  })) << attached.err();
  attached.Send(SIGINT);
  EXPECT_EQ(attached.Wait(), 130) << attached.err();
  EXPECT_FALSE(run.ended());

  CommandRun waiting = box_.Start({"wait", job});
  CommandRun logs = box_.Start({"logs", "-f", job});
  box_.Write("go", "");
  EXPECT_EQ(run.Wait(), 0) << run.err();
  EXPECT_EQ(waiting.Wait(), 0) << waiting.err();
  EXPECT_EQ(logs.Wait(), 0) << logs.err();
  EXPECT_THAT(logs.out(), HasSubstr("[0@node-1] line of 0\n"));
}

TEST_F(JobCommands, SeeAJobThatHasEnded) {
  std::string job;
  CommandRun run = StartJob("5", &job);
  box_.Write("go", "");
  EXPECT_EQ(run.Wait(), 5) << run.err();

  CommandRun status = box_.Run({"status", job});
  EXPECT_EQ(status.Wait(), 0) << status.err();
  EXPECT_THAT(status.out(),
              AllOf(HasSubstr("failed, exit status 5"), HasSubstr("rank 1 on node-2")));
  EXPECT_THAT(box_.Run({"status", job, "-o", "json"}).out(),
              AllOf(HasSubstr("\"state\": \"failed\""), HasSubstr("\"exit_status\": 5")));
  CommandRun waited = box_.Run({"wait", job});
  EXPECT_EQ(waited.Wait(), 5);
  EXPECT_THAT(waited.err(), HasSubstr("rank 1 on node-2"));
  EXPECT_THAT(box_.Run({"list"}).out(), HasSubstr(job));
  CommandRun cancel = box_.Run({"cancel", job});
  EXPECT_NE(cancel.Wait(), 0);
  EXPECT_THAT(cancel.err(), HasSubstr("has ended"));
}

TEST_F(JobCommands, PrintLogsInManyWays) {
  std::string job;
  CommandRun run = StartJob("0", &job);
  box_.Write("go", "");
  ASSERT_EQ(run.Wait(), 0) << run.err();
  const auto logs = [&](std::vector<std::string> flags) {
    std::vector<std::string> arguments = {"logs", job};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    CommandRun command = box_.Run(arguments);
    EXPECT_EQ(command.Wait(), 0) << command.err();
    return command.out();
  };
  EXPECT_THAT(logs({}),
              AllOf(HasSubstr("[0@node-1] line of 0\n"), HasSubstr("[1@node-2] error of 1\n")));
  EXPECT_EQ(logs({"--rank", "1", "--stream", "out"}), "[1@node-2] line of 1\n");
  EXPECT_EQ(logs({"--node", "node-1", "--stream", "err"}), "[0@node-1] error of 0\n");
  EXPECT_EQ(logs({"--raw", "--rank", "0"}), "line of 0\nerror of 0\n");
  EXPECT_EQ(logs({"--tail", "1", "--rank", "1"}), "[1@node-2] error of 1\n");
  EXPECT_EQ(logs({"--grep", "^line.*1$"}), "[1@node-2] line of 1\n");
  EXPECT_EQ(logs({"--since", "2035-01-01"}), "");
  EXPECT_THAT(logs({"--order", "time", "-o", "json"}), HasSubstr("\"text\":\"line of 0\""));
  EXPECT_EQ(box_.Run({"logs", job, "--rank", "7"}).Wait(), 2);
}

TEST_F(JobCommands, CancelStopsAJob) {
  std::string job;
  CommandRun run = StartJob("0", &job);
  CommandRun cancel = box_.Run({"cancel", job, "--grace", "2"});
  EXPECT_EQ(cancel.Wait(), 0) << cancel.err();
  EXPECT_EQ(run.Wait(Seconds(10)), 143) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("cancelled"));
}

TEST_F(JobCommands, ExplainNamesTheLayers) {
  box_.Write(".deepspeed_env", "MODE=2\n");
  box_.Write("job.yaml",
             "hostfile: hosts\nscript: r.py\nenv: {HF_TOKEN: hidden}\n"
             "node_env: {node-2: {NIC: eno1}}\n");
  CommandRun explain = box_.Run({"explain", "job.yaml", "--rank", "1"});
  EXPECT_EQ(explain.Wait(), 0) << explain.err();
  EXPECT_THAT(explain.out(), AllOf(HasSubstr(".deepspeed_env:1"), HasSubstr("NIC"),
                                   HasSubstr("node-2"), Not(HasSubstr("hidden"))));
  CommandRun diff = box_.Run({"explain", "job.yaml", "--diff", "0", "1"});
  EXPECT_THAT(diff.out(), AllOf(HasSubstr("NIC"), Not(HasSubstr("MODE"))));
}

TEST_F(JobCommands, ExplainTellsWhatARankOfAnEndedJobHad) {
  box_.Write(".deepspeed_env", "MODE=2\nHF_TOKEN=hidden\n");
  box_.Write("seen.py", R"(import os, sys
names = ('MASTER_ADDR', 'MASTER_PORT', 'MUSTER_JOB_ID', 'MUSTER_ATTEMPT', 'MUSTER_NODE', 'RANK')
with open('seen.' + os.environ['RANK'], 'w') as stream:
    for name in names:
        stream.write('"%s": {\n          "value": "%s"' % (name, os.environ[name]) + '\0')
open('up', 'w').close()
while not os.path.exists('go'):
    pass
sys.exit(3 if os.environ['MUSTER_ATTEMPT'] == '1' else 0)
)");
  box_.Write("job.yaml",
             "hostfile: hosts\nscript: seen.py\nargs: [a b]\nlog_dir: logs\n"
             "env: {MODE: '3'}\nrestart: {max_attempts: 2, on: [rank-failed]}\n");
  CommandRun run = box_.Start({"submit", "job.yaml"});
  ASSERT_TRUE(box_.WaitFor("up") && box_.WaitFor("logs/latest")) << run.err();
  const std::string job = std::filesystem::read_symlink(box_.Path("logs/latest"));
  CommandRun early = box_.Run({"explain", job});
  EXPECT_NE(early.Wait(), 0);
  EXPECT_THAT(early.err(), HasSubstr("still runs"));
  box_.Write("go", "");
  ASSERT_EQ(run.Wait(), 0) << run.err();
  // What the files say by now does not matter.
  box_.Write(".deepspeed_env", "MODE=9\n");
  box_.Write("hosts", "other slots=1\n");

  CommandRun shown = box_.Run({"explain", job, "--rank", "1"});
  EXPECT_EQ(shown.Wait(), 0) << shown.err();
  EXPECT_THAT(shown.out(),
              AllOf(HasSubstr(job + ", attempt 2"), HasSubstr("hosts:2 lists node-2"),
                    HasSubstr("'a b'"), HasSubstr("job.yaml:5"), HasSubstr(".deepspeed_env:1"),
                    Not(HasSubstr("hidden")), Not(HasSubstr("chosen at the start"))));
  const std::string json = box_.Run({"explain", job, "--rank", "1", "-o", "json"}).out();
  std::stringstream seen(box_.Read("seen.1"));
  int variables = 0;
  for (std::string part; std::getline(seen, part, '\0'); ++variables) {
    EXPECT_THAT(json, HasSubstr(part));
  }
  EXPECT_EQ(variables, 6);
  CommandRun diff = box_.Run({"explain", job, "--diff", "0", "1"});
  EXPECT_THAT(diff.out(), AllOf(HasSubstr("MUSTER_NODE"), Not(HasSubstr("MUSTER_JOB_ID"))));
  CommandRun changed = box_.Run({"explain", job, "--env", "MODE=4"});
  EXPECT_EQ(changed.Wait(), 2) << "what has happened cannot be changed";
  EXPECT_THAT(changed.err(), HasSubstr("--env"));
  EXPECT_EQ(box_.Run({"explain", job, "--rank", "2"}).Wait(), 2);
  CommandRun unknown = box_.Run({"explain", "nojob"});
  EXPECT_EQ(unknown.Wait(), 2);
  EXPECT_THAT(unknown.err(), HasSubstr("no local job"));
}

TEST_F(JobCommands, LogsOfAnEarlierAttempt) {
  box_.Write("again.sh",
             "echo attempt $MUSTER_ATTEMPT of $RANK\n[ $MUSTER_ATTEMPT = 3 ] && exit 0\n"
             "touch $MUSTER_ATTEMPT.$RANK.said\n"
             "until [ -e $MUSTER_ATTEMPT.1.said ]; do sleep 0.01; done\nexit 5\n");
  box_.Write("job.yaml",
             "hostfile: hosts\nlog_dir: logs\ncommand: [sh, again.sh]\n"
             "restart: {max_attempts: 3, on: [rank-failed]}\n");
  CommandRun run = box_.Run({"submit", "job.yaml"});
  ASSERT_EQ(run.Wait(), 0) << run.err();
  const std::string job = std::filesystem::read_symlink(box_.Path("logs/latest"));
  const auto logs = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"logs", job, "--rank", "1"});
    CommandRun shown = box_.Run(flags);
    EXPECT_EQ(shown.Wait(), 0) << shown.err();
    return shown.out();
  };
  EXPECT_EQ(logs({}), "[1@node-2] attempt 3 of 1\n");
  EXPECT_EQ(logs({"--attempt", "3", "-f"}), "[1@node-2] attempt 3 of 1\n");
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{}, {"-f"}, {"--tail", "1"}, {"--order", "time"}}) {
    std::vector<std::string> flags = {"--attempt", "2"};
    flags.insert(flags.end(), more.begin(), more.end());
    EXPECT_EQ(logs(flags), "[1@node-2] attempt 2 of 1\n");
  }
  CommandRun missing = box_.Run({"logs", job, "--attempt", "4"});
  EXPECT_EQ(missing.Wait(), 2);
  EXPECT_THAT(missing.err(), HasSubstr("has no attempt 4, only 1 to 3"));
  EXPECT_EQ(box_.Run({"logs", job, "--attempt", "0"}).Wait(), 2);
}

TEST_F(JobCommands, ExplainTellsAJobThatWasNeverPlaced) {
  box_.Write("hosts", "node-1 slots=1\n192.0.2.77 slots=1\n");
  CommandRun run = box_.Run({"spawn", "--hostfile", "hosts", "--timeout", "1", "r.py"});
  ASSERT_EQ(run.Wait(), 120) << run.err();
  // "muster: job ID (r) on 2 hosts"
  std::stringstream words(run.err().substr(run.err().find("muster: job ")));
  std::string job;
  words >> job >> job >> job;
  CommandRun shown = box_.Run({"explain", job, "--rank", "1"});
  EXPECT_EQ(shown.Wait(), 0) << shown.err();
  EXPECT_THAT(shown.out(), AllOf(HasSubstr(job + ", not placed on any node"),
                                 HasSubstr("hosts:2 lists 192.0.2.77")));
}

TEST_F(JobCommands, SayWhatTheyTake) {
  for (const char* command : {"submit", "spawn", "list", "status", "watch", "wait", "attach",
                              "logs", "cancel", "signal", "nodes", "explain"}) {
    CommandRun help = box_.Run({command, "--help"});
    EXPECT_EQ(help.Wait(), 0) << command;
    EXPECT_THAT(help.out(), HasSubstr(std::string("usage: coordinator ") + command));
  }
  CommandRun unknown = box_.Run({"statsu"});
  EXPECT_EQ(unknown.Wait(), 2);
  EXPECT_THAT(unknown.err(), HasSubstr("did you mean status?"));
  EXPECT_THAT(box_.Run({"--version"}).out(), HasSubstr("coordinator 0."));
}

}  // namespace
}  // namespace muster
