#include "coordinator/cli/explain_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "coordinator/plan/plan_job.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

v1::EnvAssignment Set(const std::string& name, const std::string& value, v1::EnvLayer layer,
                      const std::string& source) {
  v1::EnvAssignment setting;
  setting.set_name(name);
  setting.add_parts()->set_literal(value);
  setting.set_layer(layer);
  setting.set_source(source);
  return setting;
}

v1::JobSpec TwoNodes() {
  v1::JobSpec spec;
  for (int i = 1; i <= 2; ++i) {
    v1::HostEntry* host = spec.add_hosts();
    host->set_host("node-" + std::to_string(i));
    host->set_slot_count(2);
    host->set_source("hostfile:" + std::to_string(i));
  }
  spec.mutable_program()->set_kind(v1::Program::SCRIPT);
  spec.mutable_program()->set_target("train it.py");
  spec.set_working_directory("/work");
  *spec.add_env() = Set("MODE", "1", v1::ENV_LAYER_FORWARDED, "");
  *spec.add_env() = Set("MODE", "2", v1::ENV_LAYER_DEEPSPEED_ENV, ".deepspeed_env:3");
  *spec.add_env() = Set("WANDB_API_KEY", "secret", v1::ENV_LAYER_JOB, "job.yaml:9");
  v1::NodeOverride* node = spec.add_node_overrides();
  node->set_host("node-2");
  *node->add_env() = Set("NIC", "eno1", v1::ENV_LAYER_NODE, "job.yaml:12");
  return spec;
}

RankExplanation ExplainedRank(uint32_t rank) {
  const v1::JobSpec spec = TwoNodes();
  return *Explain(spec, *PlanJob(spec, {}, PlanDetail::kLayout), rank);
}

TEST(Explain, TellsPlaceAndLayers) {
  const RankExplanation rank = ExplainedRank(3);
  EXPECT_EQ(rank.host, "node-2");
  EXPECT_EQ(rank.host_source, "hostfile:2");
  EXPECT_EQ(rank.local_rank, 1u);
  EXPECT_EQ(rank.variables.at("MODE").value, "2");
  EXPECT_EQ(rank.variables.at("MODE").source, ".deepspeed_env:3");
  EXPECT_EQ(rank.variables.at("MODE").overridden.size(), 1u);
  EXPECT_EQ(rank.variables.at("RANK").value, "3");
  EXPECT_EQ(rank.variables.at("NIC").value, "eno1");
}

TEST(Explain, TellsWhatCameWithTheStart) {
  const v1::JobSpec spec = TwoNodes();
  v1::Plan plan = *PlanJob(spec, {}, PlanDetail::kLayout);
  plan.mutable_nodes(1)->set_node_id("n2");
  StartedJob started{"abc", 2, v1::Rendezvous()};
  started.rendezvous->set_address("192.0.2.5");
  started.rendezvous->set_port(29511);
  const RankExplanation rank = *Explain(spec, plan, 3, started);
  EXPECT_EQ(rank.variables.at("MASTER_ADDR").value, "192.0.2.5");
  EXPECT_EQ(rank.variables.at("MASTER_PORT").value, "29511");
  EXPECT_EQ(rank.variables.at("MUSTER_JOB_ID").value, "abc");
  EXPECT_EQ(rank.variables.at("MUSTER_ATTEMPT").value, "2");
  EXPECT_EQ(rank.variables.at("MUSTER_NODE").value, "n2");
  EXPECT_EQ(rank.variables.at("MUSTER_NODE").layer, "launcher");
  EXPECT_THAT(RenderExplanations({{rank}}), HasSubstr("abc, attempt 2"));
  EXPECT_THAT(ExplanationsToJson({{rank}}), HasSubstr("\"attempt\": 2"));
}

TEST(Explain, TellsAJobThatFoundNoNodes) {
  const v1::JobSpec spec = TwoNodes();
  const RankExplanation rank =
      *Explain(spec, *PlanJob(spec, {}, PlanDetail::kLayout), 0, StartedJob{"abc", 0, {}});
  EXPECT_FALSE(rank.variables.contains("MUSTER_ATTEMPT"));
  const std::string text = RenderExplanations({{rank}});
  EXPECT_THAT(text, HasSubstr("abc, not placed on any node"));
  EXPECT_THAT(text, HasSubstr("(chosen at the start)"));
}

TEST(Explain, MasksSecrets) {
  const std::vector<RankExplanation> ranks = {ExplainedRank(0)};
  EXPECT_THAT(RenderExplanations(ranks), Not(HasSubstr("secret")));
  EXPECT_THAT(ExplanationsToJson(ranks), Not(HasSubstr("secret")));
}

TEST(Explain, KnowsNoOtherRanks) {
  const v1::JobSpec spec = TwoNodes();
  EXPECT_FALSE(Explain(spec, *PlanJob(spec, {}, PlanDetail::kLayout), 4));
}

TEST(RenderExplanations, QuotesTheCommand) {
  const std::vector<RankExplanation> ranks = {ExplainedRank(0)};
  EXPECT_THAT(RenderExplanations(ranks), HasSubstr("'train it.py'"));
  EXPECT_THAT(RenderExplanations(ranks), HasSubstr("hostfile:1 lists node-1"));
}

TEST(RenderDiff, ShowsOnlyWhatDiffers) {
  const std::string text = RenderDiff(ExplainedRank(0), ExplainedRank(2));
  EXPECT_THAT(text, HasSubstr("RANK 0 (node-1)"));
  EXPECT_THAT(text, HasSubstr("NIC"));
  EXPECT_THAT(text, HasSubstr("(not set)"));
  EXPECT_THAT(text, Not(HasSubstr("MODE")));
  EXPECT_THAT(text, Not(HasSubstr("WORLD_SIZE")));
  const auto json = nlohmann::json::parse(DiffToJson(ExplainedRank(0), ExplainedRank(2)));
  EXPECT_EQ(json["b"]["env"]["NIC"]["value"], "eno1");
  EXPECT_FALSE(json["a"]["env"].contains("MODE"));
}

TEST(Explain, TellsWhatBindingMeansBeforeTheRunAndWhatItWasAfterwards) {
  v1::JobSpec spec = TwoNodes();
  EXPECT_THAT(RenderExplanations({{ExplainedRank(0)}}), HasSubstr("none: not bound"));
  spec.set_bind("numa");
  const v1::Plan plan = *PlanJob(spec, {}, PlanDetail::kLayout);
  EXPECT_THAT(RenderExplanations({{*Explain(spec, plan, 0)}}),
              HasSubstr("numa: by the card's NUMA node, known once nodes are prepared"));
  StartedJob started{.job_id = "7f3a", .attempt = 1};
  v1::RankPlacement& bound = started.placements[2];
  bound.set_cpus("0-5");
  bound.set_memory_node(1);
  bound.set_omp_num_threads(6);
  bound.set_reason("card 0 is at NUMA node 1");
  v1::RankPlacement& unbound = started.placements[3];
  unbound.set_memory_node(-1);
  unbound.set_reason("no card");
  const RankExplanation two = *Explain(spec, plan, 2, started);
  EXPECT_THAT(RenderExplanations({{two}}),
              HasSubstr("numa: processors 0-5, memory of NUMA node 1 (card 0 is at NUMA node 1)"));
  EXPECT_EQ(two.variables.at("OMP_NUM_THREADS").value, "6");
  EXPECT_EQ(two.variables.at("OMP_NUM_THREADS").layer, "launcher");
  const RankExplanation three = *Explain(spec, plan, 3, started);
  EXPECT_THAT(RenderExplanations({{three}}), HasSubstr("numa: not bound (no card)"));
  EXPECT_FALSE(three.variables.contains("OMP_NUM_THREADS"));
  const nlohmann::json json = nlohmann::json::parse(ExplanationsToJson({{two, three}}));
  EXPECT_EQ(json["ranks"][0]["bind"]["cpus"], "0-5");
  EXPECT_EQ(json["ranks"][0]["bind"]["memory_node"], 1);
  EXPECT_TRUE(json["ranks"][1]["bind"]["cpus"].is_null());
  EXPECT_EQ(json["ranks"][1]["bind"]["setting"], "numa");
}

}  // namespace
}  // namespace muster
