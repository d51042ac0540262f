#include "coordinator/plan/plan_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/annotate.h"
#include "tests/unit/plan/plan_fixtures.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

// "rank local host slot" per rank.
std::vector<std::string> Layout(const v1::Plan& plan) {
  std::vector<std::string> out;
  for (const v1::PlannedNode& node : plan.nodes()) {
    for (const v1::RankSpec& rank : node.launch().ranks()) {
      out.push_back(
          fmt::format("{} {} {} {}", rank.rank(), rank.local_rank(), node.host(), rank.slot()));
    }
  }
  return out;
}

std::string ErrorOf(const absl::StatusOr<v1::Plan>& plan, absl::StatusCode code) {
  EXPECT_EQ(plan.status().code(), code) << plan.status();
  return std::string(MessageOf(plan.status()));
}

TEST(PlanJob, NumbersRanksByHostThenBySlot) {
  v1::JobSpec spec = ScriptJob();
  AddHost(spec, "b", 3);
  AddHost(spec, "a", 2);
  const v1::Plan plan = *PlanJob(spec, {});
  EXPECT_THAT(Layout(plan), ElementsAre("0 0 b 0", "1 1 b 1", "2 2 b 2", "3 0 a 0", "4 1 a 1"));
  EXPECT_EQ(plan.world_size(), 5u);
}

TEST(PlanJob, CountsLocalRanksByPositionNotBySlot) {
  v1::JobSpec spec = ScriptJob();
  AddHost(spec, "a", 8, {0});
  AddHost(spec, "b", 8, {7, 5, 5});
  EXPECT_THAT(Layout(*PlanJob(spec, {})), ElementsAre("0 0 a 0", "1 0 b 5", "2 1 b 7"));
}

TEST(PlanJob, GivesEveryRankTheVariablesOfTorchrunAndDeepSpeed) {
  v1::JobSpec spec = ScriptJob();
  AddHost(spec, "a", 3);
  AddHost(spec, "b", 2);
  const v1::Plan plan = *PlanJob(spec, {});
  const v1::RankSpec& last = plan.nodes(1).launch().ranks(1);
  std::vector<std::string> env;
  for (const v1::EnvPair& pair : last.env()) env.push_back(pair.name() + "=" + pair.value());
  EXPECT_THAT(env, ElementsAre("RANK=4", "LOCAL_RANK=1", "WORLD_SIZE=5", "LOCAL_WORLD_SIZE=2",
                               "LOCAL_SIZE=2", "CROSS_RANK=1", "CROSS_SIZE=2", "GROUP_RANK=1",
                               "GROUP_WORLD_SIZE=2", "NODE_RANK=1", "ID=4"));
}

TEST(PlanJob, NamesModulesOnlyWhenSlotsAreCards) {
  v1::JobSpec spec = ScriptJob();
  AddHost(spec, "a", 2);
  std::vector<NodeSlots> nodes = {Node("a", {7, 4, 6, 5})};
  v1::Plan plan = *PlanJob(spec, nodes);
  EXPECT_EQ(EnvOf(plan.nodes(0).launch().ranks(0), "HABANA_VISIBLE_MODULES"), "(unset)");
  nodes[0].are_modules = true;
  plan = *PlanJob(spec, nodes);
  EXPECT_THAT(Layout(plan), ElementsAre("0 0 a 4", "1 1 a 5"));
  EXPECT_EQ(EnvOf(plan.nodes(0).launch().ranks(1), "HABANA_VISIBLE_MODULES"), "4,5");
  EXPECT_EQ(EnvOf(plan.nodes(0).launch().ranks(1), "HLS_MODULE_ID"), "5");
}

TEST(PlanJob, LeavesTheModuleOfASingleRankOpenUnlessItWasChosen) {
  v1::JobSpec spec = ScriptJob();
  AddHost(spec, "a", 1);
  std::vector<NodeSlots> nodes = {{NodeId("a"), {0, 1}, true}};
  EXPECT_EQ(EnvOf(PlanJob(spec, nodes)->nodes(0).launch().ranks(0), "HLS_MODULE_ID"), "(unset)");
  spec.mutable_hosts(0)->add_selected_slots(1);
  EXPECT_EQ(EnvOf(PlanJob(spec, nodes)->nodes(0).launch().ranks(0), "HLS_MODULE_ID"), "1");
}

TEST(PlanJob, WarnsOfCardsThatAreNoGroup) {
  v1::JobSpec spec = ScriptJob();
  AddHost(spec, "a", 8, {1, 2});
  const std::vector<NodeSlots> nodes = {{NodeId("a"), {0, 1, 2, 3, 4, 5, 6, 7}, true}};
  EXPECT_THAT(PlanJob(spec, nodes)->warnings(),
              ElementsAre(AllOf(HasSubstr("hostfile:1: a"), HasSubstr("1-2"))));
}

TEST(PlanJob, BuildsTheArgvOfEveryForm) {
  const std::vector<std::string> args = {"", "--", "-1", "a b\n", "\xff$x"};
  struct Case {
    v1::Program::Kind kind;
    const char* target;
    std::vector<std::string> front;
    uint32_t index;
    const char* script;
  };
  const std::vector<Case> cases = {
      {v1::Program::SCRIPT, "t.py", {"python3", "-u", "t.py"}, 3, "t.py"},
      {v1::Program::SCRIPT, "-t.py", {"python3", "-u", "./-t.py"}, 3, "-t.py"},
      {v1::Program::MODULE, "pkg.tool", {"python3", "-u", "-m", "pkg.tool"}, 4, ""},
      {v1::Program::COMMAND, "/bin/bash", {"/bin/bash"}, 1, ""},
  };
  for (const Case& c : cases) {
    for (bool local_rank : {false, true}) {
      v1::JobSpec spec = ScriptJob(args);
      AddHost(spec, "a", 1);
      spec.mutable_program()->set_kind(c.kind);
      spec.mutable_program()->set_target(c.target);
      spec.mutable_program()->set_local_rank_argument(local_rank);
      const v1::Plan plan = *PlanJob(spec, {});
      const v1::LaunchSpec& launch = plan.nodes(0).launch();
      std::vector<std::string> want = c.front;
      want.insert(want.end(), args.begin(), args.end());
      EXPECT_THAT(launch.argv(), ElementsAreArray(want));
      EXPECT_EQ(launch.local_rank_argument_index(), local_rank ? c.index : 0) << c.target;
      EXPECT_EQ(launch.script(), c.script);
    }
  }
}

TEST(PlanJob, LetsAHostDiffer) {
  v1::JobSpec spec = ScriptJob();
  AddHost(spec, "a", 1);
  AddHost(spec, "b", 1);
  spec.mutable_program()->set_interpreter("/opt/py");
  *spec.add_env() = JobEnv("X", "job");
  v1::NodeOverride& node = *spec.add_node_overrides();
  node.set_host("b");
  node.set_working_directory("/data");
  node.set_interpreter("/usr/bin/python3");
  *node.add_env() = LiteralEnv("X", "node", v1::ENV_LAYER_NODE, "job.yaml:7");
  const v1::Plan plan = *PlanJob(spec, {});
  EXPECT_EQ(plan.nodes(0).launch().working_directory(), "/work");
  EXPECT_EQ(plan.nodes(0).launch().argv(0), "/opt/py");
  EXPECT_EQ(plan.nodes(0).launch().env_size(), 1);
  EXPECT_EQ(plan.nodes(1).launch().working_directory(), "/data");
  EXPECT_EQ(plan.nodes(1).launch().argv(0), "/usr/bin/python3");
  ASSERT_EQ(plan.nodes(1).launch().env_size(), 2);
  EXPECT_EQ(plan.nodes(1).launch().env(1).parts(0).literal(), "node");
}

TEST(PlanJob, AsksTheNodeOfRankZeroForTheRendezvous) {
  v1::JobSpec spec = ScriptJob();
  AddHost(spec, "a", 1).set_address("192.0.2.1");
  AddHost(spec, "b", 1).set_address("192.0.2.2");
  spec.set_master_port(1234);
  v1::Plan plan = *PlanJob(spec, {});
  EXPECT_EQ(plan.nodes(0).launch().rendezvous().port(), 1234u);
  EXPECT_EQ(plan.nodes(0).launch().rendezvous().address(), "192.0.2.1");
  EXPECT_FALSE(plan.nodes(1).launch().has_rendezvous());
  EXPECT_EQ(plan.master_addr(), "192.0.2.1");
  EXPECT_EQ(plan.master_port(), 1234u);
  spec.set_master_addr("198.51.100.1");
  plan = *PlanJob(spec, {});
  EXPECT_EQ(plan.nodes(0).launch().rendezvous().address(), "198.51.100.1");
}

TEST(PlanJob, PassesOnWhatTheJobSays) {
  v1::JobSpec spec = ScriptJob();
  AddHost(spec, "a", 1);
  EXPECT_EQ(PlanJob(spec, {})->nodes(0).launch().stop_grace().seconds(), 30);
  EXPECT_FALSE(PlanJob(spec, {})->nodes(0).launch().has_on_coordinator_loss());
  spec.mutable_grace()->set_seconds(0);
  spec.mutable_on_coordinator_loss()->mutable_stop_after()->set_seconds(6);
  spec.set_user("alice");
  spec.set_log_quota_bytes(77);
  const v1::Plan plan = *PlanJob(spec, {});
  const v1::LaunchSpec& launch = plan.nodes(0).launch();
  EXPECT_EQ(launch.stop_grace().seconds(), 0);
  EXPECT_EQ(launch.on_coordinator_loss().stop_after().seconds(), 6);
  EXPECT_EQ(launch.user(), "alice");
  EXPECT_EQ(launch.log_quota_bytes(), 77u);
  EXPECT_EQ(launch.bind(), "");
  spec.set_bind_core_list("0-3");
  spec.set_bind("none");
  EXPECT_EQ(PlanJob(spec, {})->nodes(0).launch().bind(), "");
  EXPECT_EQ(PlanJob(spec, {})->nodes(0).launch().bind_core_list(), "");
  spec.set_bind("cores");
  EXPECT_EQ(PlanJob(spec, {})->nodes(0).launch().bind(), "cores");
  EXPECT_EQ(PlanJob(spec, {})->nodes(0).launch().bind_core_list(), "0-3");
}

TEST(PlanJob, TakesAllSlotsOfABareHost) {
  v1::JobSpec spec = ScriptJob();
  AddHost(spec, "a", 0);
  EXPECT_EQ(PlanJob(spec, {})->world_size(), kSlotsOfUnknownNode);
  const std::vector<NodeSlots> nodes = {Node("a", {2, 0, 1})};
  EXPECT_THAT(Layout(*PlanJob(spec, nodes)), ElementsAre("0 0 a 0", "1 1 a 1", "2 2 a 2"));
}

TEST(PlanJob, RefusesSlotsThatANodeDoesNotHave) {
  v1::JobSpec spec = ScriptJob();
  AddHost(spec, "node-1", 8);
  AddHost(spec, "node-2", 8, {1, 6, 7});
  AddHost(spec, "node-3", 0);
  AddHost(spec, "node-4", 2);
  const std::vector<NodeSlots> nodes = {Node("n1", {0, 1, 2, 3}), Node("n2", {0, 1, 2, 3}),
                                        Node("n3", {}), Node("n4", {0, 1})};
  const std::string error = ErrorOf(PlanJob(spec, nodes), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(error,
            "hostfile:1: node-1 asks for 8 slots, node n1 has 4 (0-3)\n"
            "hostfile:2: node-2: slot 6-7 is not on node n2, which has 4 (0-3)\n"
            "hostfile:3: node-3 asks for all slots, node n3 has no slots");
}

TEST(PlanJob, PlansKnownAndUnknownNodesTogether) {
  v1::JobSpec spec = ScriptJob();
  AddHost(spec, "a", 0);
  AddHost(spec, "b", 2);
  const std::vector<NodeSlots> nodes = {Node("n1", {0}), {}};
  const v1::Plan plan = *PlanJob(spec, nodes);
  EXPECT_EQ(plan.world_size(), 3u);
  EXPECT_EQ(plan.nodes(0).node_id(), "n1");
  EXPECT_EQ(plan.nodes(1).node_id(), "");
}

TEST(PlanJob, RefusesAnotherWorldSizeThanTheUserExpects) {
  v1::JobSpec spec = ScriptJob();
  AddHost(spec, "a", 0);
  spec.set_expected_world_size(16);
  // Nobody knows yet how many slots the host has.
  EXPECT_TRUE(PlanJob(spec, {}).ok());
  const std::vector<NodeSlots> nodes = {Node("a", {0, 1})};
  EXPECT_THAT(ErrorOf(PlanJob(spec, nodes), absl::StatusCode::kInvalidArgument),
              AllOf(HasSubstr("world size 16"), HasSubstr("2 ranks")));
}

TEST(PlanJob, ReportsEverythingThatIsWrongWithAJob) {
  v1::JobSpec spec;
  spec.set_working_directory("here");
  spec.set_master_port(65536);
  AddHost(spec, "a", 1);
  AddHost(spec, "a", 1);
  AddHost(spec, "", 1);
  const std::string error = ErrorOf(PlanJob(spec, {}), absl::StatusCode::kInvalidArgument);
  for (const char* part :
       {"absolute path, got 'here'", "65536", "hostfile:2: a is listed already at hostfile:1",
        "no name", "neither script"}) {
    EXPECT_THAT(error, HasSubstr(part));
  }
  EXPECT_THAT(ErrorOf(PlanJob(ScriptJob(), {}), absl::StatusCode::kInvalidArgument),
              HasSubstr("no hosts"));
}

TEST(PlanJob, BoundsTheNumberOfRanks) {
  v1::JobSpec spec = ScriptJob();
  AddHost(spec, "a", 4'000'000'000u);
  EXPECT_FALSE(PlanJob(spec, {}).ok());
  spec.clear_hosts();
  for (int i = 0; i < 11; ++i) AddHost(spec, std::to_string(i), 100'000);
  EXPECT_THAT(ErrorOf(PlanJob(spec, {}), absl::StatusCode::kInvalidArgument), HasSubstr("1100000"));
}

TEST(PlanJob, NamesRankAndNodeOfStringsThatAreTooLong) {
  v1::JobSpec spec = ScriptJob();
  AddHost(spec, "node-1", 2);
  AddHost(spec, "node-2", 2);
  *spec.add_env() = JobEnv("BIGVAR", std::string(200'000, 'x'));
  EXPECT_THAT(ErrorOf(PlanJob(spec, {}), absl::StatusCode::kInvalidArgument),
              AllOf(HasSubstr("rank 0 on node-1 (and all others): "), HasSubstr("BIGVAR"),
                    HasSubstr("too long")));
  spec.clear_env();
  v1::NodeOverride& node = *spec.add_node_overrides();
  node.set_host("node-2");
  *node.add_env() = JobEnv("BIGVAR", std::string(200'000, 'x'));
  EXPECT_THAT(ErrorOf(PlanJob(spec, {}), absl::StatusCode::kInvalidArgument),
              testing::StartsWith("rank 2 on node-2: environment variable BIGVAR"));
}

TEST(PlanJob, PlansAThousandHosts) {
  v1::JobSpec spec = ScriptJob({"--lr", "1e-3"});
  for (int i = 0; i < 1000; ++i) AddHost(spec, fmt::format("host-{}.example.net", i), 8);
  for (int i = 0; i < 200; ++i)
    *spec.add_env() = JobEnv(fmt::format("V{}", i), std::string(300, 'x'));
  const v1::Plan plan = *PlanJob(spec, {}, PlanDetail::kLayout);
  EXPECT_EQ(plan.world_size(), 8000u);
  EXPECT_EQ(plan.nodes(999).launch().ranks(7).rank(), 7999u);
  // Small enough for one message.
  EXPECT_LT(plan.ByteSizeLong(), 3u << 20);
}

TEST(PlanJob, LeavesOnlyTheEnvironmentOutOfALayout) {
  v1::JobSpec spec = ScriptJob();
  AddHost(spec, "a", 2);
  AddHost(spec, "b", 1);
  *spec.add_env() = JobEnv("X", "1");
  v1::NodeOverride& node = *spec.add_node_overrides();
  node.set_host("b");
  *node.add_env() = JobEnv("Y", "2");
  v1::Plan layout = *PlanJob(spec, {}, PlanDetail::kLayout);
  EXPECT_EQ(layout.nodes(1).launch().env_size(), 0);
  for (v1::PlannedNode& planned : *layout.mutable_nodes()) {
    AddEnvironment(spec, planned.host(), *planned.mutable_launch());
  }
  EXPECT_EQ(layout.SerializeAsString(), PlanJob(spec, {})->SerializeAsString());
}

TEST(SlotsOf, TakesWhatTheAgentReported) {
  NodeView node{NodeId("n"), {}};
  node.facts.add_slots(3);
  node.facts.add_slots(1);
  EXPECT_EQ(SlotsOf(node).node, NodeId("n"));
  EXPECT_THAT(SlotsOf(node).slots, ElementsAre(3u, 1u));
}

}  // namespace
}  // namespace muster
