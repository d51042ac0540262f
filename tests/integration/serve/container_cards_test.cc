// Jobs in containers on a node with simulated cards: what the engine is told of them, and that two
// jobs side by side have cards of their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/integration/sandbox/cluster.h"
#include "tests/integration/stand_in/engine.h"
#include "tests/testing/sim_node.h"

namespace muster {
namespace {

using testing::Cluster;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using testing::Sandbox;
using testing::StandInEngine;
using ::testing::StartsWith;
using ::testing::Values;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

// Engine and runtime.
class ServeContainerCards : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  ServeContainerCards()
      : engine_name_(std::get<0>(GetParam())),
        runtime_(std::get<1>(GetParam())),
        cluster_(1, 4),
        box_(cluster_.box()),
        engine_(box_, engine_name_),
        node_(box_.Path("sim")) {
    node_.AddCards(modules_);
    for (uint32_t index = 0; index < modules_.size(); ++index) {
      node_.Write("/dev/accel/accel_controlD" + std::to_string(index), "");
    }
    box_.Set("MUSTER_SYSROOT", node_.root());
    for (const std::string name : {"a", "b"}) {
      box_.Write(name + ".yaml",
                 "name: " + name + "\nhostfile: hosts\ncontainer: {image: 'img:1', engine: " +
                     engine_name_ + (runtime_.empty() ? "" : ", runtime: " + runtime_) +
                     "}\ncommand: [sh, -c, 'echo $HABANA_VISIBLE_MODULES $HLS_MODULE_ID "
                     "$HABANA_VISIBLE_DEVICES > wrote.$RANK." +
                     name + "; mv wrote.$RANK." + name + " up.$RANK." + name +
                     "; while ! test -e go." + name + "; do sleep 0.05; done']\n");
    }
  }
  std::string Start(const std::string& name) {
    const std::string job = cluster_.Submit(name + ".yaml");
    for (const char* rank : {"0", "1", "2", "3"}) {
      EXPECT_TRUE(box_.WaitFor(std::string("up.") + rank + "." + name)) << cluster_.box().path();
    }
    return job;
  }
  // What clients of a job's ranks were called with.
  std::vector<Words> Runs(const std::string& job) const {
    std::vector<Words> runs;
    for (const Json& call : engine_.Calls("run")) {
      Words words = call["argv"];
      if (std::find(words.begin(), words.end(), "--label=muster.job=" + job) != words.end()) {
        runs.push_back(std::move(words));
      }
    }
    return runs;
  }
  // Modules whose device nodes such a container has, control nodes included.
  std::set<uint32_t> ModulesIn(const Words& words) const {
    std::set<uint32_t> modules;
    for (uint32_t index = 0; index < modules_.size(); ++index) {
      const std::string number = std::to_string(index);
      const std::string node = "/dev/accel/accel" + number;
      if (!Has(words, node_.root() + node + ":" + node)) continue;
      const std::string control = "/dev/accel/accel_controlD" + number;
      EXPECT_TRUE(Has(words, node_.root() + control + ":" + control));
      modules.insert(modules_[index]);
    }
    return modules;
  }
  static bool Has(const Words& words, const std::string& word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  }

  // By index.
  const std::vector<uint32_t> modules_ = {3, 7, 0, 5, 1, 6, 2, 4};
  const std::string engine_name_;
  const std::string runtime_;
  Cluster cluster_;
  Sandbox& box_;
  StandInEngine engine_;
  SimNode node_;
};

TEST_P(ServeContainerCards, HalfNodeJobsGetCardsOfTheirOwn) {
  cluster_.Start();
  const std::string a = Start("a");
  const std::string b = Start("b");
  const bool habana = runtime_ == "habana";
  for (const auto& [name, job, modules] :
       {std::tuple("a", a, std::set<uint32_t>{0, 1, 2, 3}), {"b", b, {4, 5, 6, 7}}}) {
    const std::vector<Words> runs = Runs(job);
    EXPECT_EQ(runs.size(), 4u);
    for (const Words& words : runs) {
      EXPECT_THAT(words, IsSupersetOf({"--network=host", "--ipc=host", "--cap-add=sys_nice",
                                       "HABANA_VISIBLE_MODULES"}));
      // What podman can give depends on the user.
      EXPECT_THAT(words, Contains(StartsWith("--ulimit=memlock=")));
      EXPECT_THAT(words, Contains(StartsWith("--ulimit=nofile=")));
      EXPECT_THAT(words, Not(Contains(StartsWith("--device"))));
      EXPECT_EQ(ModulesIn(words), habana ? std::set<uint32_t>() : modules);
      EXPECT_EQ(Has(words, "--runtime=habana"), habana);
      // Podman has it in front of the command.
      if (habana && engine_name_ == "podman") {
        EXPECT_EQ(words.front(), "--runtime=habana");
      }
    }
    for (uint32_t rank = 0; rank < 4; ++rank) {
      const std::string first = name == std::string("a") ? "0,1,2,3 " : "4,5,6,7 ";
      EXPECT_EQ(box_.Read("up." + std::to_string(rank) + "." + name),
                first + std::to_string(rank + *modules.begin()) + (habana ? " all\n" : "\n"));
    }
  }
  box_.Write("go.a", "");
  box_.Write("go.b", "");
  EXPECT_EQ(cluster_.WaitJob(a), 0);
  EXPECT_EQ(cluster_.WaitJob(b), 0);
}

INSTANTIATE_TEST_SUITE_P(Engines, ServeContainerCards,
                         Values(std::tuple("docker", ""), std::tuple("docker", "habana"),
                                std::tuple("podman", ""), std::tuple("podman", "habana")));

}  // namespace
}  // namespace muster
