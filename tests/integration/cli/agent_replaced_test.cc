// A local agent that is killed and another that takes its place, or that is silent for a while: the
// ranks go on and nothing of them is lost.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>

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

// An agent started by the test. Killed and reaped at the end.
class OwnAgent {
 public:
  // With the words, the variables and the folder of a process, which lives.
  explicit OwnAgent(pid_t model) {
    const std::string proc = "/proc/" + std::to_string(model);
    program_ = std::filesystem::read_symlink(proc + "/exe");
    folder_ = std::filesystem::read_symlink(proc + "/cwd");
    words_ = Sandbox::Words(model);
    variables_ = Sandbox::Variables(model);
  }
  ~OwnAgent() { Kill(); }
  OwnAgent(const OwnAgent&) = delete;
  OwnAgent& operator=(const OwnAgent&) = delete;

  void Start() {
    ASSERT_EQ(pid_, -1);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addchdir_np(&actions, folder_.c_str());
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
    EXPECT_EQ(posix_spawn(&pid_, program_.c_str(), &actions, &attributes, Pointers(words_).data(),
                          Pointers(variables_).data()),
              0);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  void Kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  // True when it ended by itself, with 0.
  bool EndsWell(Seconds limit) {
    int status = -1;
    if (!WaitUntil([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; }, limit)) return false;
    pid_ = -1;
    return status == 0;
  }

 private:
  static std::vector<char*> Pointers(std::vector<std::string>& strings) {
    std::vector<char*> pointers;
    for (std::string& string : strings) pointers.push_back(string.data());
    pointers.push_back(nullptr);
    return pointers;
  }

  pid_t pid_ = -1;
  std::string program_;
  std::string folder_;
  std::vector<std::string> words_;
  std::vector<std::string> variables_;
};

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
    time.sleep(0.002)  # paces: talks on, for as long as agents are replaced, without filling the disk
os._exit(23 if r == '1' else 0)
)";

class AgentReplaced : public ::testing::Test {
 protected:
  // Starts the job; `agent_` is ready to take the place of node-2's.
  CommandRun StartJob() {
    box_.Hosts(2, 1);
    box_.Write("talk.py", kTalker);
    box_.Write("job.yaml", "hostfile: hosts\nscript: talk.py\nlog_dir: logs\ngrace: 60s\n");
    CommandRun run = box_.Start({"submit", "job.yaml"});
    EXPECT_TRUE(Grows(2)) << run.err();
    job_ = std::filesystem::read_symlink(box_.Path("logs/latest"));
    const std::vector<pid_t> agents = box_.Agents("node-2");
    EXPECT_EQ(agents.size(), 1u);
    first_ = agents.at(0);
    agent_ = std::make_unique<OwnAgent>(first_);
    return run;
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
  pid_t first_ = 0;
  std::unique_ptr<OwnAgent> agent_;
};

TEST_F(AgentReplaced, AgainAndAgainWhileItsRankTalks) {
  CommandRun run = StartJob();
  ASSERT_EQ(::kill(first_, SIGKILL), 0);
  // Longer than the lease of a node: a countdown that the first death began would be over.
  const double begin = run.seconds();
  while (run.seconds() < begin + 9) {
    agent_->Kill();
    agent_->Start();
    ASSERT_TRUE(Grows(400)) << run.err();
  }
  EXPECT_THAT(run.err(), HasSubstr("the agent of node-2 was ended by SIGKILL"));
  box_.Write("enough.0", "");
  box_.Write("enough.1", "");
  ExpectEverything(run);
  EXPECT_TRUE(agent_->EndsWell(Seconds(30))) << "it is ephemeral, and its coordinator is gone";
  EXPECT_THAT(box_.Processes(), IsEmpty());
}

TEST_F(AgentReplaced, AfterItsRankHasEnded) {
  CommandRun run = StartJob();
  box_.Write("enough.0", "");
  ASSERT_EQ(::kill(first_, SIGKILL), 0);
  box_.Write("enough.1", "");
  const pid_t rank = std::stoi(box_.Read("starts.1"));
  ASSERT_TRUE(WaitUntil([&] { return Sandbox::Words(rank).empty(); }));
  EXPECT_FALSE(run.ended()) << "the death of an agent is not yet that of its node";
  agent_->Start();
  ExpectEverything(run);
}

TEST_F(AgentReplaced, ByItselfAfterItWasSilent) {
  CommandRun run = StartJob();
  // As on a machine whose processors are all taken.
  ASSERT_EQ(::kill(first_, SIGSTOP), 0);
  EXPECT_TRUE(WaitUntil([&] { return Suspect(); })) << run.err();
  ASSERT_EQ(::kill(first_, SIGCONT), 0);
  EXPECT_TRUE(WaitUntil([&] { return !Suspect(); })) << run.err();
  box_.Write("enough.0", "");
  box_.Write("enough.1", "");
  ExpectEverything(run);
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

TEST_F(AgentReplaced, NotWhenItNeverStarts) {
  box_.Hosts(2, 1);
  std::filesystem::create_directory(box_.Path("bin"));
  box_.Write("bin/agent", "#!/bin/sh\necho the library is missing >&2\nexit 3\n");
  std::filesystem::permissions(box_.Path("bin/agent"), std::filesystem::perms::owner_all);
  box_.Set("MUSTER_BIN_DIR", box_.Path("bin"));
  CommandRun run = box_.Run({"spawn", "--hostfile", "hosts", "--no-python", "true"});
  EXPECT_EQ(run.Wait(), 120) << run.err();
  EXPECT_THAT(run.err(), AllOf(HasSubstr("node-1"), HasSubstr("the library is missing")));
}

TEST_F(AgentReplaced, NotWhenItSaysThatItWasCalledWrongly) {
  box_.Hosts(1, 1);
  std::filesystem::create_directory(box_.Path("bin"));
  box_.Write("bin/agent", "#!/bin/sh\necho start >>" + box_.Path("starts") +
                              "\necho 'agent: --slots: expected 1 to 4096' >&2\nexit 2\n");
  std::filesystem::permissions(box_.Path("bin/agent"), std::filesystem::perms::owner_all);
  box_.Set("MUSTER_BIN_DIR", box_.Path("bin"));
  CommandRun run = box_.Run({"spawn", "--hostfile", "hosts", "--no-python", "true"});
  EXPECT_EQ(run.Wait(), 120) << run.err();
  EXPECT_THAT(run.err(), AllOf(HasSubstr("expected 1 to 4096"), Not(HasSubstr("takes its place"))));
  EXPECT_EQ(box_.Read("starts"), "start\n");
}

TEST_F(AgentReplaced, ByTheCommandWhileNothingRuns) {
  box_.Hosts(2, 1);
  std::filesystem::create_directory(box_.Path("bin"));
  // Dies once, as from a bug, before it serves.
  box_.Write("bin/agent",
             "#!/bin/sh\nif mkdir " + box_.Path("once") +
                 "; then kill -ABRT $$; fi\nexport MUSTER_BIN_DIR=" + Sandbox::Programs() +
                 "\nexec " + Sandbox::Programs() + "/agent \"$@\"\n");
  std::filesystem::permissions(box_.Path("bin/agent"), std::filesystem::perms::owner_all);
  box_.Set("MUSTER_BIN_DIR", box_.Path("bin"));
  CommandRun run = box_.Run({"spawn", "--hostfile", "hosts", "--no-python", "echo", "here"});
  EXPECT_EQ(run.Wait(), 0) << run.err();
  EXPECT_THAT(run.err(), AllOf(HasSubstr("SIGABRT"), HasSubstr("another one takes its place")));
}

}  // namespace
}  // namespace muster
