// The Session stream against the whole coordinator.
#include <gmock/gmock.h>

#include "tests/contract/rpc/rpc_world.h"

namespace muster {
namespace {

class SessionTest : public RpcWorld {
 protected:
  v1::Node::State StateOf(const std::string& node_id) {
    v1::ListNodesResponse response;
    const auto context = MakeContext();
    EXPECT_TRUE(nodes_->ListNodes(context.get(), {}, &response).ok());
    for (const v1::Node& node : response.nodes()) {
      if (node.node_id() == node_id) return node.state();
    }
    return v1::Node::STATE_UNSPECIFIED;
  }
};

TEST_F(SessionTest, WelcomesAnAgentAndListsItsNode) {
  AddAgent("node-1");
  EXPECT_EQ(StateOf("node-1"), v1::Node::ALIVE);
}

TEST_F(SessionTest, AnswersHeartbeats) {
  TestAgent& agent = AddAgent("node-1");
  v1::AgentMessage message;
  for (uint64_t sequence = 1; sequence <= 3; ++sequence) {
    message.mutable_heartbeat()->set_sequence(sequence);
    ASSERT_TRUE(agent.session().Write(message));
    EXPECT_EQ(agent.Read().heartbeat_ack().sequence(), sequence);
  }
}

TEST_F(SessionTest, EndsTheOlderOfTwoSessions) {
  TestAgent& older = AddAgent("node-1");
  AddAgent("node-1");
  EXPECT_EQ(older.FinishSession().error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(StateOf("node-1"), v1::Node::ALIVE);
}

TEST_F(SessionTest, RefusesABadHello) {
  TestAgent agent(coordinator_->InProcessChannel(), "node-1");
  v1::AgentMessage message;
  message.mutable_hello()->set_node_id("node 1");
  ASSERT_TRUE(agent.session().Write(message));
  EXPECT_EQ(agent.FinishSession().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(SessionTest, NoticesThatAnAgentHungUp) {
  TestAgent& agent = AddAgent("node-1");
  agent.HangUp();
  agent.FinishSession();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (StateOf("node-1") != v1::Node::SUSPECT) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  }
}

TEST_F(SessionTest, EndsWhenTheAgentHalfCloses) {
  TestAgent& agent = AddAgent("node-1");
  agent.session().WritesDone();
  EXPECT_TRUE(agent.FinishSession().ok());
}

TEST_F(SessionTest, RunsAJobFromStartToEnd) {
  TestAgent& agent = AddAgent("node-1");
  const v1::Job job = Submit({"node-1"}, 2);
  const v1::AttemptKey key = agent.RunRanks(2);
  EXPECT_EQ(key.job_id(), job.job_id());
  for (const uint32_t rank : {0u, 1u}) {
    agent.ExitRank(key, rank);
    agent.CloseLog(key, rank, 0);
  }
  agent.StopAttempt(key);
  EXPECT_EQ(AwaitEnd(job.job_id()), v1::Job::SUCCEEDED);
  agent.AwaitAssignment(v1::Assignment::RELEASED);
}

TEST_F(SessionTest, StaysUpWhenTheServerStopsWithStreamsOpen) {
  AddAgent("node-1");
  AddAgent("node-2");
  Submit({"node-1", "node-2", "node-3"}, 1);
  const auto begin = std::chrono::steady_clock::now();
  coordinator_->Stop(std::chrono::milliseconds(100));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_FALSE(agents_[0]->FinishSession().ok());
}

TEST_F(SessionTest, GoesOnAfterARestart) {
  const v1::Job job = Submit({"node-1"}, 1);
  coordinator_.reset();
  StartCoordinator();
  TestAgent& agent = AddAgent("node-1");
  const v1::AttemptKey key = agent.RunRanks(1);
  EXPECT_EQ(key.job_id(), job.job_id());
}

}  // namespace
}  // namespace muster
