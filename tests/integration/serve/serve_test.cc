// The coordinator as a daemon: commands that come and go, and what they may rely on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>

#include "tests/integration/sandbox/cluster.h"

namespace muster {
namespace {

using ::testing::AllOf;
using testing::Cluster;
using testing::CommandRun;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Seconds;
using testing::WaitUntil;

class Serve : public ::testing::Test {
 protected:
  Serve() : cluster_(2, 2), box_(cluster_.box()) {
    // Waits for `go`, then ends with the code in the file code.RANK, or 0.
    box_.Write("r.py", R"(import os, sys, time
r = os.environ['RANK']
print('line of', r, flush=True)
open('up.' + r, 'w').close()
while not os.path.exists('go'):
    time.sleep(0.01)
print('last of', r, flush=True)
sys.exit(int(open('code.' + r).read()) if os.path.exists('code.' + r) else 0)
)");
    box_.Write("job.yaml", "hostfile: hosts\nscript: r.py\ngrace: 5s\n");
  }
  void AwaitRanks() {
    for (const char* name : {"up.0", "up.1", "up.2", "up.3"}) {
      EXPECT_TRUE(box_.WaitFor(name)) << name;
    }
  }
  void Go() { box_.Write("go", ""); }

  Cluster cluster_;
  testing::Sandbox& box_;
};

TEST_F(Serve, RunsJobsOneAfterTheOther) {
  cluster_.Start();
  Go();
  for (int i = 0; i < 3; ++i) {
    CommandRun run = box_.Run({"submit", "job.yaml"});
    EXPECT_EQ(run.Wait(), 0) << run.err();
    EXPECT_THAT(run.out(),
                AllOf(HasSubstr("[0@node-1] line of 0"), HasSubstr("[3@node-2] last of 3")));
  }
  EXPECT_THAT(cluster_.JobProcesses(), IsEmpty());
}

TEST_F(Serve, EndsWithTheStatusOfTheJob) {
  cluster_.Start();
  Go();
  box_.Write("code.2", "41");
  CommandRun run = box_.Run({"submit", "job.yaml"});
  EXPECT_EQ(run.Wait(), 41) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("rank 2"));
}

TEST_F(Serve, AClientThatIsKilledChangesNothing) {
  cluster_.Start();
  CommandRun run = box_.Start({"submit", "job.yaml"});
  AwaitRanks();
  run.Send(SIGKILL);
  run.Wait();
  CommandRun list = box_.Run({"list"});
  EXPECT_THAT(list.out(), HasSubstr("running"));
  const std::string job = list.out().substr(list.out().find('\n') + 1, 6);
  CommandRun attach = box_.Start({"attach", job});
  EXPECT_TRUE(WaitUntil([&] { return attach.out().find("line of 3") != std::string::npos; }));
  CommandRun follow = box_.Start({"logs", "-f", job});
  box_.Write("code.1", "7");
  Go();
  EXPECT_EQ(attach.Wait(), 7) << attach.err();
  EXPECT_THAT(attach.out(), HasSubstr("[1@node-1] last of 1"));
  EXPECT_EQ(follow.Wait(), 0) << follow.err();
  EXPECT_THAT(follow.out(), AllOf(HasSubstr("line of 0"), HasSubstr("last of 1")));
  EXPECT_EQ(cluster_.WaitJob(job), 7);
}

TEST_F(Serve, CtrlCStopsTheJobOnlyFromTheCommandThatRunsIt) {
  cluster_.Start();
  CommandRun run = box_.Start({"submit", "job.yaml"});
  AwaitRanks();
  const std::string list = box_.Run({"list"}).out();
  CommandRun attached = box_.Start({"attach", list.substr(list.find('\n') + 1, 6)});
  EXPECT_TRUE(WaitUntil([&] { return !attached.out().empty(); }));
  attached.Send(SIGINT);
  EXPECT_NE(attached.Wait(), -1);
  EXPECT_FALSE(run.ended()) << "whoever only looks stops nothing";
  run.Send(SIGINT);
  EXPECT_EQ(run.Wait(), 130) << run.err();
  EXPECT_TRUE(WaitUntil([&] { return cluster_.JobProcesses().empty(); }));
}

TEST_F(Serve, CancelStopsADetachedJob) {
  cluster_.Start();
  const std::string job = cluster_.Submit();
  AwaitRanks();
  CommandRun cancel = box_.Run({"cancel", job});
  EXPECT_EQ(cancel.Wait(), 0) << cancel.err();
  EXPECT_NE(cluster_.WaitJob(job), 0);
  EXPECT_THAT(box_.Run({"status", job}).out(), HasSubstr("cancelled"));
  EXPECT_TRUE(WaitUntil([&] { return cluster_.JobProcesses().empty(); }));
}

TEST_F(Serve, AJobThatWaitsHasNoOutputYet) {
  cluster_.Start();
  box_.Write("waits.yaml", "hosts: [{host: not-there, slots: 1}]\ncommand: [true]\n");
  const std::string job = cluster_.Submit("waits.yaml");
  CommandRun all = box_.Run({"logs", job});
  EXPECT_EQ(all.Wait(), 0) << all.err();
  CommandRun one = box_.Run({"logs", job, "--rank", "0"});
  EXPECT_EQ(one.Wait(), 0) << one.err();
  EXPECT_EQ(one.out(), "");
  // Whoever follows it gets what it writes once it runs.
  CommandRun follow = box_.Start({"logs", job, "--rank", "0", "-f"});
  EXPECT_EQ(box_.Run({"cancel", job}).Wait(), 0);
  EXPECT_EQ(follow.Wait(), 0) << follow.err();
}

TEST_F(Serve, ASecondCoordinatorIsRefused) {
  cluster_.StartCoordinator();
  cluster_.AwaitNodes(0);
  CommandRun same =
      box_.Run({"serve", "--state-dir", "state", "--socket", box_.Path("other.sock")});
  EXPECT_EQ(same.Wait(), 2);
  EXPECT_THAT(same.err(), AllOf(HasSubstr("in use by another coordinator"), HasSubstr("process ")));
  CommandRun socket = box_.Run({"serve", "--state-dir", "other", "--socket", cluster_.socket()});
  EXPECT_EQ(socket.Wait(), 2);
  EXPECT_THAT(socket.err(), HasSubstr("in use by another coordinator"));
  EXPECT_EQ(box_.Run({"nodes"}).Wait(), 0) << "the first one serves on";
}

TEST_F(Serve, EndsCleanlyAndLeavesNoSocket) {
  cluster_.Start();
  const std::string job = cluster_.Submit();
  AwaitRanks();
  cluster_.KillCoordinator(SIGTERM);
  EXPECT_EQ(cluster_.coordinator().Wait(), 0) << cluster_.coordinator().err();
  EXPECT_FALSE(std::filesystem::exists(cluster_.socket()));
  EXPECT_EQ(box_.Run({"status", job}).Wait(), 122);
  EXPECT_FALSE(cluster_.JobProcesses().empty()) << "the job goes on";
  cluster_.StartCoordinator();
  Go();
  EXPECT_EQ(cluster_.WaitJob(job), 0);
}

TEST_F(Serve, ASocketThatIsRemovedIsMadeAgain) {
  cluster_.Start();
  const std::string job = cluster_.Submit();
  AwaitRanks();
  std::filesystem::remove(cluster_.socket());
  EXPECT_TRUE(box_.WaitFor("c.sock"));
  // Also for agents that have to come back.
  cluster_.KillAgent(1);
  cluster_.StartAgent(1);
  cluster_.AwaitNodes(2);
  Go();
  EXPECT_EQ(cluster_.WaitJob(job), 0);
}

TEST_F(Serve, AnAgentMayBeStoppedAndStartedUnderARunningJob) {
  cluster_.Start();
  const std::string job = cluster_.Submit();
  AwaitRanks();
  for (const int signal : {SIGTERM, SIGKILL}) {
    cluster_.KillAgent(2, signal);
    EXPECT_FALSE(cluster_.JobProcesses().empty());
    cluster_.StartAgent(2);
    cluster_.AwaitNodes(2);
  }
  box_.Write("code.3", "9");
  Go();
  EXPECT_EQ(cluster_.WaitJob(job), 9);
  EXPECT_EQ(cluster_.Log(job, 3), "line of 3\nlast of 3\n");
}

TEST_F(Serve, TellsWhenThereIsNoCoordinator) {
  CommandRun run = box_.Run({"submit", "job.yaml"});
  EXPECT_EQ(run.Wait(), 122);
  EXPECT_THAT(run.err(), AllOf(HasSubstr(cluster_.socket()), HasSubstr("MUSTER_SERVER")));
}

TEST_F(Serve, RefusesAStateDirectoryThatCannotBe) {
  box_.Write("file", "");
  CommandRun run =
      box_.Run({"serve", "--state-dir", box_.Path("file/state"), "--socket", cluster_.socket()});
  EXPECT_EQ(run.Wait(), 2);
  EXPECT_THAT(run.err(), HasSubstr("file"));
  const std::string far = box_.Path(std::string(120, 'x'));
  CommandRun too_long = box_.Run({"serve", "--state-dir", "state", "--socket", far});
  EXPECT_EQ(too_long.Wait(), 2);
  EXPECT_THAT(too_long.err(), HasSubstr("107"));
}

}  // namespace
}  // namespace muster
