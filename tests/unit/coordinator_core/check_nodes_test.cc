// Nodes that are checked without a job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/coordinator_core/world.h"

namespace muster::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class RecordingListener final : public CheckListener {
 public:
  void OnFound(v1::CheckNodesResponse response) override { found.push_back(std::move(response)); }
  void OnChecked(const absl::Status& status) override { done = status; }

  std::vector<v1::CheckNodesResponse> found;
  std::optional<absl::Status> done;
};

class CheckNodesTest : public ::testing::Test {
 protected:
  CheckNodesTest() { world_.JoinAll({"node-1", "node-2"}); }

  absl::StatusOr<CheckHandle> Begin(const v1::CheckNodesRequest& request) {
    absl::StatusOr<CheckHandle> check =
        world_.core().CheckNodes(request, Caller{"alice", false}, &listener_);
    world_.Settle();
    return check;
  }
  static v1::CheckNodesRequest Of(const std::vector<std::string>& hosts) {
    v1::CheckNodesRequest request;
    for (const std::string& host : hosts) request.add_hosts()->set_host(host);
    return request;
  }
  // What an agent was asked last.
  v1::RunCheck Asked(const std::string& node) {
    for (auto it = world_.Agent(node).inbox.rbegin(); it != world_.Agent(node).inbox.rend(); ++it) {
      if (it->has_run_check()) return it->run_check();
    }
    return {};
  }
  void Say(const std::string& node, v1::CheckReport report) {
    v1::AgentMessage message;
    report.set_check_id(Asked(node).check_id());
    *message.mutable_check_report() = std::move(report);
    world_.core().OnAgentMessage(world_.Agent(node).session, std::move(message));
    world_.Settle();
  }
  void Report(const std::string& node) {
    v1::CheckReport report;
    report.mutable_node()->add_results()->set_check("disk");
    Say(node, std::move(report));
  }

  World world_;
  RecordingListener listener_;
};

TEST_F(CheckNodesTest, EveryNodeIsAskedAndToldAsItAnswers) {
  ASSERT_TRUE(Begin({}).ok());
  EXPECT_EQ(Asked("node-1").node().launch().node_count(), 2u);
  EXPECT_EQ(Asked("node-1").node().launch().user(), "alice");
  Report("node-2");
  ASSERT_THAT(listener_.found, SizeIs(1));
  EXPECT_EQ(listener_.found[0].node().host(), "node-2");
  EXPECT_EQ(listener_.found[0].node().report().results(0).check(), "disk");
  EXPECT_FALSE(listener_.done);
  Report("node-1");
  ASSERT_THAT(listener_.found, SizeIs(3));
  EXPECT_TRUE(listener_.found[2].has_cluster());
  EXPECT_EQ(listener_.done, absl::OkStatus());
}

TEST_F(CheckNodesTest, AHostThatIsToHaveMoreSlotsThanItsNodeHasIsTold) {
  v1::CheckNodesRequest request = Of({"node-1", "node-2"});
  request.mutable_hosts(0)->set_slot_count(9000);
  request.mutable_hosts(1)->set_slot_count(1);
  ASSERT_TRUE(Begin(request).ok());
  Report("node-1");
  Report("node-2");
  ASSERT_THAT(listener_.found, SizeIs(3));
  ASSERT_EQ(listener_.found[0].node().report().results_size(), 2);
  const v1::CheckResult& slots = listener_.found[0].node().report().results(1);
  EXPECT_EQ(slots.check(), "slots");
  EXPECT_EQ(slots.verdict(), v1::FAIL);
  EXPECT_THAT(slots.message(), ::testing::HasSubstr("node-1 asks for 9000 slots, node node-1 has"));
  EXPECT_EQ(listener_.found[1].node().report().results_size(), 1);
}

TEST_F(CheckNodesTest, AHostWithoutANodeAndOneThatIsLateAreTold) {
  ASSERT_TRUE(Begin(Of({"node-1", "node-9"})).ok());
  ASSERT_THAT(listener_.found, SizeIs(1));
  EXPECT_EQ(listener_.found[0].node().host(), "node-9");
  EXPECT_THAT(listener_.found[0].node().error(), HasSubstr("no node serves it"));
  world_.Run(std::chrono::seconds(11));
  ASSERT_THAT(listener_.found, SizeIs(3));
  EXPECT_THAT(listener_.found[1].node().error(), HasSubstr("did not answer within 10000 ms"));
  EXPECT_EQ(listener_.done, absl::OkStatus());
  // Too late.
  Report("node-1");
  EXPECT_THAT(listener_.found, SizeIs(3));
}

TEST_F(CheckNodesTest, ANodeThatLosesContactIsTold) {
  ASSERT_TRUE(Begin(Of({"node-1"})).ok());
  world_.Disconnect("node-1");
  world_.Settle();
  ASSERT_THAT(listener_.found, SizeIs(2));
  EXPECT_THAT(listener_.found[0].node().error(), HasSubstr("lost contact"));
}

TEST_F(CheckNodesTest, AReportOfAnotherNodeDoesNotCount) {
  ASSERT_TRUE(Begin(Of({"node-1"})).ok());
  v1::AgentMessage message;
  message.mutable_check_report()->set_check_id(Asked("node-1").check_id());
  message.mutable_check_report()->mutable_node();
  world_.core().OnAgentMessage(world_.Agent("node-2").session, std::move(message));
  world_.Settle();
  EXPECT_THAT(listener_.found, IsEmpty());
}

TEST_F(CheckNodesTest, WhoGivesUpHearsNothingMore) {
  const absl::StatusOr<CheckHandle> check = Begin({});
  ASSERT_TRUE(check.ok());
  world_.core().CancelCheck(*check);
  Report("node-1");
  world_.Run(std::chrono::seconds(20));
  EXPECT_THAT(listener_.found, IsEmpty());
  EXPECT_FALSE(listener_.done);
}

TEST_F(CheckNodesTest, AJobsProgramAndEnvironmentGoToTheNode) {
  v1::CheckNodesRequest request = Of({"node-1"});
  *request.mutable_spec() = World::Spec({"node-1"});
  v1::EnvAssignment& assignment = *request.mutable_spec()->add_env();
  assignment.set_name("HCCL_SOCKET_IFNAME");
  assignment.add_parts()->set_literal("ens6");
  ASSERT_TRUE(Begin(request).ok());
  const v1::LaunchSpec launch = Asked("node-1").node().launch();
  EXPECT_FALSE(launch.argv().empty());
  ASSERT_EQ(launch.env_size(), 1);
  EXPECT_EQ(launch.env(0).name(), "HCCL_SOCKET_IFNAME");
}

TEST_F(CheckNodesTest, BadRequestsAreRefusedWithEveryProblem) {
  v1::CheckNodesRequest request;
  request.mutable_spec()->add_skip_checks("memlok");
  request.mutable_spec()->set_user("bob");
  request.mutable_limit()->set_seconds(-1);
  request.mutable_network_test()->set_rounds(5000);
  const absl::Status status = Begin(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  for (const char* part : {"memlok", "memlock", "only an admin", "limit", "rounds"}) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
}

TEST_F(CheckNodesTest, TooManyAtOnceAreRefused) {
  std::vector<CheckHandle> checks;
  for (int i = 0; i < 8; ++i) checks.push_back(*Begin({}));
  EXPECT_EQ(Begin({}).status().code(), absl::StatusCode::kFailedPrecondition);
  world_.core().CancelCheck(checks[0]);
  EXPECT_TRUE(Begin({}).ok());
}

TEST_F(CheckNodesTest, TheNetworkIsMeasuredBothWays) {
  v1::CheckNodesRequest request;
  request.mutable_network_test()->set_rounds(1);
  ASSERT_TRUE(Begin(request).ok());
  Report("node-1");
  Report("node-2");
  for (const auto& [from, to] : {std::pair("node-1", "node-2"), std::pair("node-2", "node-1")}) {
    ASSERT_TRUE(Asked(to).has_listen()) << to;
    EXPECT_GE(Asked(to).listen().token().size(), 16u);
    v1::CheckReport listening;
    listening.mutable_listening()->set_port(4000);
    listening.mutable_listening()->add_addresses("192.0.2.7");
    Say(to, listening);
    ASSERT_TRUE(Asked(from).has_connect()) << from;
    EXPECT_EQ(Asked(from).connect().port(), 4000u);
    EXPECT_EQ(Asked(from).connect().token(), Asked(to).listen().token());
    EXPECT_EQ(Asked(from).connect().duration().seconds(), 1);
    v1::CheckReport rate;
    rate.mutable_rate()->set_bytes(1000);
    Say(from, rate);
  }
  ASSERT_THAT(listener_.found, SizeIs(5));
  EXPECT_EQ(listener_.found[3].pair().from(), "node-1");
  EXPECT_EQ(listener_.found[3].pair().result().verdict(), v1::PASS);
  EXPECT_EQ(listener_.found[4].pair().from(), "node-2");
  EXPECT_EQ(listener_.done, absl::OkStatus());
}

TEST_F(CheckNodesTest, ADirectionThatIsBrokenIsAFailureAndTheRestGoesOn) {
  v1::CheckNodesRequest request;
  request.mutable_network_test()->set_rounds(1);
  ASSERT_TRUE(Begin(request).ok());
  Report("node-1");
  Report("node-2");
  v1::CheckReport broken;
  broken.set_error("192.0.2.7: connect: Connection refused");
  v1::CheckReport listening;
  listening.mutable_listening()->set_port(4000);
  Say("node-2", listening);
  Say("node-1", broken);
  ASSERT_THAT(listener_.found, SizeIs(4));
  EXPECT_EQ(listener_.found[3].pair().result().verdict(), v1::FAIL);
  EXPECT_THAT(listener_.found[3].pair().result().message(), HasSubstr("refused"));
  EXPECT_TRUE(Asked("node-1").has_listen());
}

TEST(CheckNodes, WithoutNodesThereIsNothingToCheck) {
  World world;
  RecordingListener listener;
  EXPECT_EQ(world.core().CheckNodes({}, Caller{"alice", false}, &listener).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace muster::testing
