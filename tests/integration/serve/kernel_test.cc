// Jobs of long-running agents and what the kernel does for them: control groups or none, and who is
// spared when memory runs out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "tests/integration/sandbox/cluster.h"

namespace muster {
namespace {

using testing::Cluster;
using testing::CommandRun;
using ::testing::HasSubstr;
using testing::Seconds;
using testing::WaitUntil;

int OomScore(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/oom_score_adj");
  int score = 12345;
  file >> score;
  return score;
}

bool MayAskToBeSpared() {
  constexpr int kCapSysResource = 24;
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("CapEff:")) {
      return (std::stoull(line.substr(7), nullptr, 16) >> kCapSysResource & 1) != 0;
    }
  }
  return false;
}

class Kernel : public ::testing::Test {
 protected:
  Kernel() : cluster_(1, 4), box_(cluster_.box()) {
    // One rank each: deaf with deaf children, with daemons that nothing but a control group or a
    // mark tells whose they are, stopped, and forking until 200 are there.
    const std::string probe = testing::Sandbox::Programs() + "/rank_probe";
    box_.Write("job.yaml", "hostfile: hosts\ngrace: 200ms\ncommand: [" + probe +
                               ", --for-rank, 0, --ignore-term, --deaf-children, 3, pids.0, "
                               "--touch, up.0, --sleep-ms, 60000"
                               ", --for-rank, 1, --daemons, 3, pids.1, "
                               "--touch, up.1, --sleep-ms, 60000"
                               ", --for-rank, 2, --touch, up.2, --stop, --sleep-ms, 60000"
                               ", --for-rank, 3, --touch, up.3, --fork-bomb, 200]\n");
  }
  void CancelLeavesNothing() {
    const std::string job = cluster_.Submit();
    for (const char* name : {"up.0", "up.1", "up.2", "up.3"}) ASSERT_TRUE(box_.WaitFor(name));
    EXPECT_GT(cluster_.JobProcesses().size(), 8u);
    EXPECT_EQ(box_.Run({"cancel", job}).Wait(), 0);
    EXPECT_EQ(cluster_.WaitJob(job), 143);
    EXPECT_TRUE(WaitUntil([&] { return cluster_.JobProcesses().empty(); }));
  }

  Cluster cluster_;
  testing::Sandbox& box_;
};

TEST_F(Kernel, CancelLeavesNothing) {
  cluster_.Start();
  CancelLeavesNothing();
}

TEST_F(Kernel, CancelLeavesNothingWithoutControlGroups) {
  if (::geteuid() != 0) GTEST_SKIP() << "control groups can only be hidden by root";
  cluster_.StartCoordinator();
  cluster_.StartAgentBy({"/usr/bin/unshare", "--mount", "/bin/sh", "-c",
                         "mount -t tmpfs none /sys/fs/cgroup && exec \"$@\"", "sh"},
                        1);
  cluster_.AwaitNodes(1);
  EXPECT_THAT(box_.Run({"nodes", "-o", "json"}).out(), Not(HasSubstr("cgroup-kill")));
  CancelLeavesNothing();
}

TEST_F(Kernel, SparesAgentAndShimButNoRank) {
  cluster_.Start();
  if (!MayAskToBeSpared()) GTEST_SKIP() << "it takes CAP_SYS_RESOURCE to be spared";
  EXPECT_EQ(OomScore(cluster_.agent(1)), -900);
  box_.Write("scores.yaml",
             "hostfile: hosts\nnum_gpus: 1\n"
             "command: [sh, -c, 'cat /proc/self/oom_score_adj /proc/$PPID/oom_score_adj']\n");
  const std::string job = cluster_.Submit("scores.yaml");
  EXPECT_EQ(cluster_.WaitJob(job), 0);
  EXPECT_EQ(cluster_.Log(job, 0), std::to_string(OomScore(::getpid())) + "\n-999\n");
}

}  // namespace
}  // namespace muster
