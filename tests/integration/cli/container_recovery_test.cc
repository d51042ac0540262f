// Containers of ranks when agents that stay end and come back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>

#include "tests/integration/sandbox/cluster.h"
#include "tests/integration/sandbox/command_run.h"
#include "tests/integration/stand_in/engine.h"

namespace muster {
namespace {

using testing::Cluster;
using testing::StandInEngine;
using testing::WaitUntil;

class ContainerRecovery : public ::testing::Test {
 protected:
  ContainerRecovery() {
    cluster_.Start();
    cluster_.box().Write("job.yaml",
                         "hosts: [{host: node-1, slots: 2}]\n"
                         "container: {image: 'img:1'}\n"
                         "command: [sh, -c, 'touch up.$RANK; while [ ! -e go ]; do sleep 0.05; "
                         "done; exit 3']\n");
    job_ = cluster_.Submit();
    EXPECT_TRUE(cluster_.box().WaitFor("up.0") && cluster_.box().WaitFor("up.1"));
  }

  Cluster cluster_{1, 2};
  StandInEngine engine_{cluster_.box()};
  std::string job_;
};

TEST_F(ContainerRecovery, AnAgentThatComesBackHearsHowTheyEnd) {
  cluster_.KillAgent(1);
  EXPECT_EQ(engine_.Containers().size(), 2u);
  cluster_.StartAgent(1);
  cluster_.box().Write("go", "");
  EXPECT_EQ(cluster_.WaitJob(job_), 3);
  EXPECT_TRUE(engine_.Containers().empty()) << engine_.Containers();
}

TEST_F(ContainerRecovery, AnAgentThatComesBackRemovesThoseOfAShimThatIsGone) {
  const pid_t shim = StandInEngine::Parent(engine_.Client("0"));
  cluster_.KillAgent(1);
  ASSERT_EQ(::kill(shim, SIGKILL), 0);
  // Nobody is there to end them.
  ASSERT_TRUE(WaitUntil([&] { return ::kill(engine_.Client("1"), 0) != 0; }));
  EXPECT_EQ(engine_.Containers().size(), 2u);
  cluster_.StartAgent(1);
  EXPECT_EQ(cluster_.WaitJob(job_), 121);
  EXPECT_TRUE(engine_.Containers().empty()) << engine_.Containers();
}

}  // namespace
}  // namespace muster
