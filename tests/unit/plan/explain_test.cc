#include "coordinator/plan/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/plan/env_text.h"
#include "coordinator/spec/env_names.h"
#include "tests/unit/plan/plan_fixtures.h"

namespace muster {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Line(const ExplainedVariable& variable) {
  std::string text = variable.name;
  for (const v1::EnvAssignment& setting : variable.settings) {
    text += " <" + ShownValue(setting) + "|" + std::string(LayerName(setting.layer())) + "|" +
            setting.source() + ">";
  }
  return text;
}

std::vector<std::string> Lines(const v1::LaunchSpec& launch,
                               const std::optional<v1::Rendezvous>& rendezvous) {
  std::vector<std::string> lines;
  for (const ExplainedVariable& variable : ExplainRank(launch, launch.ranks(0), rendezvous)) {
    lines.push_back(Line(variable));
  }
  return lines;
}

TEST(ExplainRank, ListsEveryLayerOfAVariableAndTheOneThatHolds) {
  v1::JobSpec spec = ScriptJob();
  AddHost(spec, "node-1", 1);
  *spec.add_env() = LiteralEnv("A", "shell", v1::ENV_LAYER_FORWARDED, "submitting shell");
  *spec.add_env() = LiteralEnv("A", "file", v1::ENV_LAYER_DEEPSPEED_ENV, ".deepspeed_env:3");
  *spec.add_env() = JobEnv("RANK", "mine");
  v1::NodeOverride& node = *spec.add_node_overrides();
  node.set_host("node-1");
  *node.add_env() = LiteralEnv("A", "node", v1::ENV_LAYER_NODE, "job.yaml:9");
  const v1::Plan plan = *PlanJob(spec, {});
  const std::vector<std::string> lines = Lines(plan.nodes(0).launch(), std::nullopt);
  EXPECT_THAT(lines, Contains("A <shell|forwarded|submitting shell> "
                              "<file|.deepspeed_env|.deepspeed_env:3> <node|node|job.yaml:9>"));
  EXPECT_THAT(lines, Contains("RANK <mine|job|job.yaml:4> <0|launcher|>"));
  EXPECT_THAT(lines, Contains("PYTHONUNBUFFERED <1|default|>"));
  EXPECT_THAT(lines, Contains("MASTER_PORT <|launcher|>"));
  EXPECT_TRUE(std::is_sorted(lines.begin(), lines.end()));
}

TEST(ExplainRank, ShowsTheRendezvousOnceItIsKnown) {
  v1::JobSpec spec = ScriptJob();
  AddHost(spec, "node-1", 1);
  spec.set_master_port(1234);
  const v1::Plan plan = *PlanJob(spec, {});
  EXPECT_THAT(Lines(plan.nodes(0).launch(), std::nullopt),
              Contains("MASTER_PORT <1234|launcher|>"));
  v1::Rendezvous rendezvous;
  rendezvous.set_address("192.0.2.1");
  rendezvous.set_port(29501);
  const std::vector<std::string> lines = Lines(plan.nodes(0).launch(), rendezvous);
  EXPECT_THAT(lines, Contains("MASTER_ADDR <192.0.2.1|launcher|>"));
  EXPECT_THAT(lines, Contains("MASTER_PORT <29501|launcher|>"));
}

TEST(ShownValue, NamesVariablesAndTheHomeDirectory) {
  v1::EnvAssignment assignment = JobEnv("PATHS", "/x:");
  assignment.add_parts()->set_variable("LD_LIBRARY_PATH");
  assignment.add_parts()->set_home(true);
  assignment.add_parts()->set_literal("/lib");
  EXPECT_EQ(ShownValue(assignment), "/x:${LD_LIBRARY_PATH}~/lib");
}

TEST(ShownValue, MasksSecrets) {
  EXPECT_EQ(ShownValue(JobEnv("WANDB_API_KEY", "demo123")), kMaskedValue);
  EXPECT_THAT(ShownValue(JobEnv("https_proxy", "http://me:hunter2@proxy:1/")),
              Not(HasSubstr("hunter2")));
  EXPECT_EQ(ShownValue(JobEnv("EMPTY", "")), "");
}

}  // namespace
}  // namespace muster
