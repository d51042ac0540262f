#include "coordinator/cli/plan_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "coordinator/plan/plan_job.h"
#include "coordinator/spec/env_names.h"
#include "tests/unit/plan/plan_fixtures.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

TEST(PlanToJson, LooksLikeThis) {
  v1::JobSpec spec = ScriptJob({"--lr", "1e-3"});
  spec.set_name("train");
  AddHost(spec, "node-1", 8, {5, 7});
  AddHost(spec, "node-2", 1);
  *spec.add_env() = JobEnv("A", "old");
  *spec.add_env() = JobEnv("A", "new");
  *spec.add_env() = JobEnv("HF_TOKEN", "hf_demo");
  v1::EnvAssignment libraries = JobEnv("LD_LIBRARY_PATH", "/opt/lib:");
  libraries.add_parts()->set_variable("LD_LIBRARY_PATH");
  *spec.add_env() = libraries;
  v1::NodeOverride& node = *spec.add_node_overrides();
  node.set_host("node-2");
  node.set_working_directory("/data");
  *node.add_env() = JobEnv("IF", "lo");
  const std::vector<std::string> warnings = {"hostfile:1: a warning"};
  EXPECT_EQ(PlanToJson(spec, *PlanJob(spec, {}, PlanDetail::kLayout), warnings),
            R"({
  "name": "train",
  "world_size": 3,
  "master_addr": null,
  "master_port": null,
  "argv": [
    "python3",
    "-u",
    "train.py",
    "--lr",
    "1e-3"
  ],
  "cwd": "/work",
  "env": {
    "A": "new",
    "HF_TOKEN": "********",
    "LD_LIBRARY_PATH": "/opt/lib:${LD_LIBRARY_PATH}"
  },
  "nodes": [
    {
      "host": "node-1",
      "slots": 2
    },
    {
      "host": "node-2",
      "slots": 1,
      "cwd": "/data",
      "env": {
        "IF": "lo"
      }
    }
  ],
  "ranks": [
    {
      "rank": 0,
      "local_rank": 0,
      "node": "node-1",
      "device": 5
    },
    {
      "rank": 1,
      "local_rank": 1,
      "node": "node-1",
      "device": 7
    },
    {
      "rank": 2,
      "local_rank": 0,
      "node": "node-2",
      "device": 0
    }
  ],
  "warnings": [
    "hostfile:1: a warning"
  ]
}
)");
}

TEST(PlanToJson, ShowsWhatIsKnownOfTheRendezvousAndTheNodes) {
  v1::JobSpec spec = ScriptJob();
  AddHost(spec, "a", 1).set_address("192.0.2.1");
  spec.set_master_port(1234);
  const std::vector<NodeSlots> nodes = {Node("id-a", {0})};
  const Json json = Json::parse(PlanToJson(spec, *PlanJob(spec, nodes), {}));
  EXPECT_EQ(json["master_addr"], "192.0.2.1");
  EXPECT_EQ(json["master_port"], 1234);
  EXPECT_EQ(json["nodes"][0]["node_id"], "id-a");
}

TEST(PlanToJson, ReplacesBytesThatAreNoText) {
  v1::JobSpec spec = ScriptJob({"\xff\xfe"});
  spec.set_working_directory("/w\xfc");
  AddHost(spec, "a", 1);
  *spec.add_env() = JobEnv("A", "x\x80y");
  const Json json = Json::parse(PlanToJson(spec, *PlanJob(spec, {}), {}));
  EXPECT_EQ(json["cwd"], "/w\xef\xbf\xbd");
  EXPECT_EQ(json["env"]["A"], "x\xef\xbf\xbdy");
}

TEST(PlanToJson, ShowsWhereTheLocalRankGoes) {
  v1::JobSpec spec = ScriptJob({"x"});
  spec.mutable_program()->set_local_rank_argument(true);
  AddHost(spec, "a", 1);
  Json json = Json::parse(PlanToJson(spec, *PlanJob(spec, {}), {}));
  EXPECT_EQ(json["argv"], Json({"python3", "-u", "train.py", "--local_rank=${LOCAL_RANK}", "x"}));
  spec.mutable_program()->clear_args();
  json = Json::parse(PlanToJson(spec, *PlanJob(spec, {}), {}));
  EXPECT_EQ(json["argv"].back(), "--local_rank=${LOCAL_RANK}");
}

TEST(PlanToJson, ShowsTheJobsInterpreterAlthoughAHostHasAnother) {
  v1::JobSpec spec = ScriptJob();
  AddHost(spec, "a", 1);
  AddHost(spec, "b", 1);
  v1::NodeOverride& node = *spec.add_node_overrides();
  node.set_host("a");
  node.set_interpreter("/opt/py");
  const Json json = Json::parse(PlanToJson(spec, *PlanJob(spec, {}), {}));
  EXPECT_EQ(json["argv"][0], "python3");
  EXPECT_EQ(json["nodes"][0]["python"], "/opt/py");
}

TEST(PlanToJson, ShowsTheEnvironmentOnceForThousandsOfRanks) {
  v1::JobSpec spec = ScriptJob();
  for (int i = 0; i < 1000; ++i) AddHost(spec, "host-" + std::to_string(i), 8);
  *spec.add_env() = JobEnv("MARKER", "seen");
  const std::string text = PlanToJson(spec, *PlanJob(spec, {}, PlanDetail::kLayout), {});
  EXPECT_EQ(text.find("MARKER"), text.rfind("MARKER"));
  const Json json = Json::parse(text);
  EXPECT_EQ(json["ranks"].size(), 8000u);
  EXPECT_EQ(json["ranks"][7999]["node"], "host-999");
}

TEST(PlanToJson, NeverShowsASecretOfAHost) {
  v1::JobSpec spec = ScriptJob();
  AddHost(spec, "a", 1);
  v1::NodeOverride& node = *spec.add_node_overrides();
  node.set_host("a");
  *node.add_env() = JobEnv("DB_PASSWORD", "hunter2");
  EXPECT_THAT(PlanToJson(spec, *PlanJob(spec, {}), {}), Not(HasSubstr("hunter2")));
}

}  // namespace
}  // namespace muster
