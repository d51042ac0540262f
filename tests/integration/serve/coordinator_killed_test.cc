// A coordinator that is killed and started again: nothing of its jobs is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

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

// Prints numbered lines, keeping a copy, until it finds `enough`; rank 1 then ends with 23.
constexpr char kTalker[] = R"(import os, time
r = os.environ['RANK']
open('starts.' + r, 'a').write('%d\n' % os.getpid())
copy = os.open('copy.' + r, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
n = 0
while True:
    last = os.path.exists('enough')
    block = b''.join(b'%d %s\n' % (i, b'x' * 70) for i in range(n, n + 50))
    n += 50
    os.write(copy, block)
    while block:
        block = block[os.write(1, block):]
    if last:
        break
    time.sleep(0.002)
os._exit(23 if r == '1' else 0)
)";

// The id in the first line of a list.
std::string JobOf(const CommandRun& list) {
  return list.out().substr(list.out().find('\n') + 1, 6);
}

class CoordinatorKilled : public ::testing::Test {
 protected:
  CoordinatorKilled() : cluster_(2, 1), box_(cluster_.box()) {
    box_.Write("talk.py", kTalker);
    box_.Write("job.yaml", "hostfile: hosts\nscript: talk.py\ngrace: 60s\n");
  }
  // Waits until both ranks have written more.
  bool Talks() {
    return WaitUntil(
        [this, before0 = box_.Read("copy.0").size(), before1 = box_.Read("copy.1").size()] {
          return box_.Read("copy.0").size() > before0 && box_.Read("copy.1").size() > before1;
        });
  }
  void ExpectAllThere(const std::string& job) {
    for (const int rank : {0, 1}) {
      const std::string name = std::to_string(rank);
      EXPECT_TRUE(cluster_.Log(job, rank) == box_.Read("copy." + name)) << "log of rank " << name;
      const std::string starts = box_.Read("starts." + name);
      EXPECT_EQ(std::count(starts.begin(), starts.end(), '\n'), 1) << "rank " << name;
    }
    EXPECT_TRUE(WaitUntil([&] { return cluster_.JobProcesses().empty(); }));
  }

  Cluster cluster_;
  testing::Sandbox& box_;
};

TEST_F(CoordinatorKilled, RanksGoOnAndEverythingArrives) {
  cluster_.Start();
  const std::string job = cluster_.Submit();
  ASSERT_TRUE(Talks());
  for (int i = 0; i < 3; ++i) {
    cluster_.KillCoordinator();
    ASSERT_TRUE(Talks()) << "without a coordinator";
    cluster_.StartCoordinator();
    cluster_.AwaitNodes(2);
    ASSERT_TRUE(Talks());
  }
  box_.Write("enough", "");
  EXPECT_EQ(cluster_.WaitJob(job), 23);
  ExpectAllThere(job);
}

TEST_F(CoordinatorKilled, ExitsDuringItsAbsenceAreTold) {
  cluster_.Start();
  const std::string job = cluster_.Submit();
  ASSERT_TRUE(Talks());
  const size_t before = cluster_.JobProcesses().size();
  cluster_.KillCoordinator();
  box_.Write("enough", "");
  // Both ranks end; their shims wait to be told that everything is stored.
  ASSERT_TRUE(WaitUntil([&] { return cluster_.JobProcesses().size() + 2 <= before; }));
  cluster_.StartCoordinator();
  EXPECT_EQ(cluster_.WaitJob(job), 23);
  ExpectAllThere(job);
}

// However it ends: told to, it cancels calls that others wait for.
class CoordinatorEnds : public CoordinatorKilled, public ::testing::WithParamInterface<int> {};

TEST_P(CoordinatorEnds, TheCommandThatFollowsGoesOn) {
  cluster_.Start();
  CommandRun run = box_.Start({"submit", "job.yaml"});
  ASSERT_TRUE(Talks());
  ASSERT_TRUE(WaitUntil([&] { return !run.out().empty(); }));
  CommandRun waits = box_.Start({"wait", "--quiet", JobOf(box_.Run({"list"}))});
  for (int i = 0; i < 3; ++i) {
    cluster_.KillCoordinator(GetParam());
    ASSERT_TRUE(Talks());
    cluster_.StartCoordinator();
    cluster_.AwaitNodes(2);
    ASSERT_TRUE(Talks());
  }
  box_.Write("enough", "");
  EXPECT_EQ(run.Wait(Seconds(120)), 23) << run.err();
  EXPECT_EQ(waits.Wait(Seconds(120)), 23) << waits.err();
  // Every line once and in order.
  std::vector<std::string> lines[2];
  std::istringstream out(run.out());
  for (std::string line; std::getline(out, line);) {
    const std::string label = "[0@node-1] ";
    ASSERT_GT(line.size(), label.size());
    lines[line[1] == '0' ? 0 : 1].push_back(line.substr(label.size()));
  }
  for (const int rank : {0, 1}) {
    std::string text;
    for (const std::string& line : lines[rank]) text += line + "\n";
    EXPECT_TRUE(text == box_.Read("copy." + std::to_string(rank))) << "rank " << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(By, CoordinatorEnds, ::testing::Values(SIGKILL, SIGTERM),
                         [](const auto& one) { return one.param == SIGKILL ? "Kill" : "Term"; });

TEST_F(CoordinatorKilled, WithAnAgentAtTheSameTime) {
  cluster_.Start();
  const std::string job = cluster_.Submit();
  ASSERT_TRUE(Talks());
  cluster_.KillCoordinator();
  cluster_.KillAgent(1);
  ASSERT_TRUE(Talks()) << "only shims are left";
  cluster_.StartAgent(1);
  cluster_.StartCoordinator();
  cluster_.AwaitNodes(2);
  box_.Write("enough", "");
  EXPECT_EQ(cluster_.WaitJob(job), 23);
  ExpectAllThere(job);
}

TEST_F(CoordinatorKilled, AJobThatIsCancelledMeanwhileIsCancelledOnce) {
  cluster_.Start();
  const std::string job = cluster_.Submit();
  ASSERT_TRUE(Talks());
  CommandRun cancel = box_.Start({"cancel", job, "--now"});
  cluster_.KillCoordinator();
  cancel.Wait();
  cluster_.StartCoordinator();
  cluster_.AwaitNodes(2);
  // Whether the first one was heard is open; a second does no harm.
  EXPECT_EQ(box_.Run({"cancel", job, "--now"}).Wait(), 0);
  EXPECT_NE(cluster_.WaitJob(job), 0);
  EXPECT_THAT(box_.Run({"status", job}).out(), HasSubstr("cancelled"));
  EXPECT_TRUE(WaitUntil([&] { return cluster_.JobProcesses().empty(); }));
}

}  // namespace
}  // namespace muster
