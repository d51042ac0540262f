// Ranks that hang, as people see it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/integration/sandbox/cluster.h"

namespace muster {
namespace {

using testing::Cluster;
using testing::CommandRun;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::WaitUntil;

class Hang : public ::testing::Test {
 protected:
  Hang() : cluster_(1, 2), box_(cluster_.box()) {}
  // Rank 1 stands still, rank 0 waits for `end`.
  void WriteJob(const std::string& more) {
    box_.Write("job.yaml",
               "hostfile: hosts\ngrace: 1s\ncommand: [" + testing::Sandbox::Programs() +
                   "/rank_probe, --for-rank, 1, --stop, --for-rank, 0, --wait-file, end]\n" + more);
  }

  Cluster cluster_;
  testing::Sandbox& box_;
};

TEST_F(Hang, IsToldWhileTheJobGoesOn) {
  WriteJob("stall: {after: 1s}\n");
  cluster_.Start();
  CommandRun run = box_.Start({"submit", "job.yaml"});
  const auto says = [&run](const std::string& text) {
    return WaitUntil([&] { return run.err().find(text) != std::string::npos; });
  };
  EXPECT_TRUE(says("warning: rank 1 on node-1 (pid ")) << run.err();
  EXPECT_TRUE(says("has written nothing and hardly used processor time for 1s: pid ")) << run.err();
  EXPECT_TRUE(says("(rank_probe) in state T")) << run.err();
  EXPECT_FALSE(run.ended());
  run.Send(SIGINT);
  EXPECT_EQ(run.Wait(), 130) << run.err();
}

TEST_F(Hang, EndsTheJobWhenThatIsWanted) {
  WriteJob("stall: {after: 1s, action: fail}\n");
  cluster_.Start();
  CommandRun run = box_.Run({"submit", "job.yaml"});
  EXPECT_EQ(run.Wait(), 124) << run.err();
  EXPECT_THAT(run.err(),
              ContainsRegex("muster: rank [01] on node-1 \\(pid [0-9]+\\) has written nothing "
                            "and hardly used processor time for 1s\n"));
  EXPECT_THAT(run.err(), HasSubstr("1 other rank was stopped because of it"));
  EXPECT_TRUE(WaitUntil([&] { return cluster_.JobProcesses().empty(); }));
}

}  // namespace
}  // namespace muster
