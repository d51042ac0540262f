// A local agent that is killed, and another takes its place, or that is silent for a while: the
// ranks go on and nothing of them is lost. And agents that cannot be replaced.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "tests/integration/sandbox/command_run.h"

namespace muster {
namespace {

using ::testing::AllOf;
using testing::CommandRun;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Sandbox;
using testing::Seconds;
using testing::WaitUntil;

// Prints bytes of every kind, keeping a copy, until it finds `enough`; rank 1 then ends with 23.
constexpr char kTalker[] = R"(import os, time
r = os.environ['RANK']
open('starts.' + r, 'a').write('%d\n' % os.getpid())
copy = os.open('copy.' + r, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
while True:
    last = os.path.exists('enough.' + r)
    block = os.urandom(4093)
    os.write(copy, block)
    while block:
        block = block[os.write(1, block):]
    if last:
        break
    time.sleep(0.002)
os._exit(23 if r == '1' else 0)
)";

class AgentReplaced : public ::testing::Test {
 protected:
  // Starts the job; `agent_` is node-2's.
  CommandRun StartJob() {
    box_.Hosts(2, 1);
    box_.Write("talk.py", kTalker);
    box_.Write("job.yaml", "hostfile: hosts\nscript: talk.py\nlog_dir: logs\ngrace: 60s\n");
    CommandRun run = box_.Start({"submit", "job.yaml"});
    EXPECT_TRUE(Grows(2)) << run.err();
    job_ = std::filesystem::read_symlink(box_.Path("logs/latest"));
    const std::vector<pid_t> agents = box_.Agents("node-2");
    EXPECT_EQ(agents.size(), 1u);
    agent_ = agents.at(0);
    return run;
  }
  // Kills node-2's agent and waits for the next one.
  void KillAgent() {
    ASSERT_EQ(::kill(agent_, SIGKILL), 0);
    const pid_t killed = agent_;
    ASSERT_TRUE(WaitUntil([&] {
      for (const pid_t pid : box_.Agents("node-2")) {
        if (pid != killed) agent_ = pid;
      }
      return agent_ != killed;
    }));
  }
  // True once both ranks have written this many blocks more.
  bool Grows(size_t blocks) {
    size_t targets[2];
    for (int i = 0; i < 2; ++i) targets[i] = CopySize(i) + blocks * 4093;
    return WaitUntil([&] { return CopySize(0) >= targets[0] && CopySize(1) >= targets[1]; });
  }
  size_t CopySize(int rank) const {
    std::error_code none;
    const auto size = std::filesystem::file_size(box_.Path("copy." + std::to_string(rank)), none);
    return none ? 0 : size;
  }
  // What the coordinator thinks of node-2's contact.
  bool Suspect() {
    const std::string text = box_.Run({"status", job_, "-o", "json"}).out();
    return text.find("\"suspect\": true") != std::string::npos;
  }
  void ExpectEverything(CommandRun& run) {
    EXPECT_EQ(run.Wait(), 23) << run.err();
    EXPECT_THAT(run.err(), AllOf(HasSubstr("rank 1 on node-2"), HasSubstr("code 23"),
                                 Not(HasSubstr("were lost"))));
    for (const char* rank : {"0", "1"}) {
      const std::string copy = box_.Read(std::string("copy.") + rank);
      EXPECT_TRUE(box_.Read("logs/latest/rank_" + std::string(rank) + ".log") == copy);
      CommandRun kept = box_.Run({"logs", job_, "--raw", "--rank", rank});
      EXPECT_EQ(kept.Wait(), 0) << kept.err();
      EXPECT_TRUE(kept.out() == copy) << kept.out().size() << " bytes of " << copy.size();
      const std::string starts = box_.Read(std::string("starts.") + rank);
      EXPECT_EQ(std::count(starts.begin(), starts.end(), '\n'), 1) << starts;
    }
  }

  Sandbox box_;
  std::string job_;
  pid_t agent_ = 0;
};

TEST_F(AgentReplaced, AgainAndAgainWhileItsRankTalks) {
  CommandRun run = StartJob();
  // Longer than the lease of a node: a countdown that the first death began would be over.
  const double begin = run.seconds();
  while (run.seconds() < begin + 9) {
    // Longer than a life that counts as quick.
    const double last = run.seconds();
    while (run.seconds() < last + 2.2) ASSERT_TRUE(Grows(50)) << run.err();
    KillAgent();
    ASSERT_TRUE(Grows(400)) << run.err();
  }
  EXPECT_THAT(run.err(), AllOf(HasSubstr("the agent of node-2 was ended by SIGKILL"),
                               HasSubstr("another one takes its place")));
  box_.Write("enough.0", "");
  box_.Write("enough.1", "");
  ExpectEverything(run);
  EXPECT_THAT(box_.Processes(), IsEmpty());
}

TEST_F(AgentReplaced, WhileItsRankEnds) {
  CommandRun run = StartJob();
  box_.Write("enough.0", "");
  box_.Write("enough.1", "");
  KillAgent();
  ExpectEverything(run);
}

TEST_F(AgentReplaced, ByItselfAfterItWasSilent) {
  CommandRun run = StartJob();
  // As on a machine whose processors are all taken.
  ASSERT_EQ(::kill(agent_, SIGSTOP), 0);
  EXPECT_TRUE(WaitUntil([&] { return Suspect(); })) << run.err();
  ASSERT_EQ(::kill(agent_, SIGCONT), 0);
  EXPECT_TRUE(WaitUntil([&] { return !Suspect(); })) << run.err();
  box_.Write("enough.0", "");
  box_.Write("enough.1", "");
  ExpectEverything(run);
}

TEST_F(AgentReplaced, NotWhenItDiesAgainAndAgainAtOnce) {
  CommandRun run = StartJob();
  const auto given_up = [&] {
    for (const pid_t pid : box_.Agents("node-2")) ::kill(pid, SIGKILL);
    return run.ended();
  };
  EXPECT_TRUE(WaitUntil(given_up, Seconds(60))) << run.err();
  EXPECT_EQ(run.Wait(), 121) << run.err();
  EXPECT_THAT(run.err(), AllOf(HasSubstr("node-2"), HasSubstr("lost")));
  EXPECT_TRUE(WaitUntil([&] { return box_.Processes().empty(); }, Seconds(30)));
}

// Ranks with children that a killed shim does not take along.
constexpr char kDaemons[] = R"(import os, time
for i in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
open('up.' + os.environ['RANK'], 'w').close()
time.sleep(600)
)";

TEST_F(AgentReplaced, TogetherWithItsShimItLeavesNothing) {
  box_.Hosts(2, 1);
  box_.Write("daemons.py", kDaemons);
  CommandRun run = box_.Start({"spawn", "--hostfile", "hosts", "--grace", "2", "daemons.py"});
  ASSERT_TRUE(box_.WaitFor("up.0") && box_.WaitFor("up.1")) << run.err();
  // Agents first, so that they do not see how their shims end.
  for (const char* name : {"agent", "muster-shim"}) {
    for (const pid_t pid : box_.Processes()) {
      const std::vector<std::string> words = Sandbox::Words(pid);
      if (!words.empty() && words[0].ends_with(name)) ::kill(pid, SIGKILL);
    }
  }
  EXPECT_EQ(run.Wait(), 121) << run.err();
  EXPECT_TRUE(WaitUntil([&] { return box_.Processes().empty(); }, Seconds(30)));
}

TEST_F(AgentReplaced, NotWhenItCannotStart) {
  box_.Hosts(2, 1);
  std::filesystem::create_directory(box_.Path("bin"));
  box_.Write("bin/agent", "#!/bin/sh\necho the library is missing >&2\nexit 3\n");
  std::filesystem::permissions(box_.Path("bin/agent"), std::filesystem::perms::owner_all);
  box_.Set("MUSTER_BIN_DIR", box_.Path("bin"));
  CommandRun run = box_.Run({"spawn", "--hostfile", "hosts", "--no-python", "true"});
  EXPECT_EQ(run.Wait(), 120) << run.err();
  EXPECT_THAT(run.err(), AllOf(HasSubstr("node-1"), HasSubstr("the library is missing")));
}

}  // namespace
}  // namespace muster
