// CheckNodes over gRPC, with agents that a test speaks for.
#include <gmock/gmock.h>

#include "tests/contract/rpc/rpc_world.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

class CheckNodesRpcTest : public RpcWorld {
 protected:
  using Stream = grpc::ClientReader<v1::CheckNodesResponse>;

  // Reads on until the agent is asked for a check, and answers that it has nothing to say but
  // `check`.
  static void Answer(TestAgent& agent, const std::string& check) {
    for (;;) {
      const v1::CoordinatorMessage message = agent.Read();
      ASSERT_NE(message.body_case(), v1::CoordinatorMessage::BODY_NOT_SET);
      if (!message.has_run_check()) continue;
      v1::AgentMessage reply;
      v1::CheckReport& report = *reply.mutable_check_report();
      report.set_check_id(message.run_check().check_id());
      v1::CheckResult& result = *report.mutable_node()->add_results();
      result.set_check(check);
      result.set_verdict(v1::WARN);
      ASSERT_TRUE(agent.session().Write(reply));
      return;
    }
  }
};

TEST_F(CheckNodesRpcTest, StreamsWhatEveryNodeFindsAndThenAllTogether) {
  TestAgent& first = AddAgent("node-1");
  TestAgent& second = AddAgent("node-2");
  const std::unique_ptr<grpc::ClientContext> context = MakeContext();
  const std::unique_ptr<Stream> stream = nodes_->CheckNodes(context.get(), {});
  Answer(second, "memlock");
  v1::CheckNodesResponse found;
  ASSERT_TRUE(stream->Read(&found));
  EXPECT_EQ(found.node().host(), "node-2");
  EXPECT_EQ(found.node().report().results(0).check(), "memlock");
  Answer(first, "disk");
  ASSERT_TRUE(stream->Read(&found));
  EXPECT_EQ(found.node().host(), "node-1");
  ASSERT_TRUE(stream->Read(&found));
  EXPECT_TRUE(found.has_cluster());
  EXPECT_FALSE(stream->Read(&found));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(CheckNodesRpcTest, ANodeThatIsLateIsToldByTheLimit) {
  AddAgent("node-1");
  v1::CheckNodesRequest request;
  request.mutable_limit()->set_nanos(50'000'000);
  const std::unique_ptr<grpc::ClientContext> context = MakeContext();
  const std::unique_ptr<Stream> stream = nodes_->CheckNodes(context.get(), request);
  v1::CheckNodesResponse found;
  ASSERT_TRUE(stream->Read(&found));
  EXPECT_THAT(found.node().error(), HasSubstr("did not answer within 50 ms"));
}

TEST_F(CheckNodesRpcTest, UnknownNamesOfChecksAreRefusedWithTheKnownOnes) {
  AddAgent("node-1");
  v1::CheckNodesRequest request;
  request.mutable_spec()->add_require_checks("memlok");
  const std::unique_ptr<grpc::ClientContext> context = MakeContext();
  const std::unique_ptr<Stream> stream = nodes_->CheckNodes(context.get(), request);
  v1::CheckNodesResponse found;
  EXPECT_FALSE(stream->Read(&found));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("there is no check \"memlok\"; there are"));
}

TEST_F(CheckNodesRpcTest, ManyWhoGiveUpLeaveRoomForOthers) {
  TestAgent& agent = AddAgent("node-1");
  for (int i = 0; i < 20; ++i) {
    const std::unique_ptr<grpc::ClientContext> context = MakeContext();
    const std::unique_ptr<Stream> stream = nodes_->CheckNodes(context.get(), {});
    // It runs once the agent has heard of it.
    while (!agent.Read().has_run_check()) {
    }
    context->TryCancel();
    v1::CheckNodesResponse found;
    while (stream->Read(&found)) {
    }
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
}

}  // namespace
}  // namespace muster
