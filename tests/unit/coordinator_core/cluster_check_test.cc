// What the reports of nodes say together, and what becomes of it in a start.
#include "coordinator/core/cluster_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <list>

#include "tests/unit/coordinator_core/world.h"

namespace muster::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CompareNodesTest : public ::testing::Test {
 protected:
  v1::NodeReport& Add(const std::string& host,
                      const std::vector<std::pair<std::string, std::string>>& traits = {}) {
    v1::NodeReport& report = reports_.emplace_back();
    for (const auto& [name, value] : traits) {
      v1::NodeTrait& trait = *report.add_traits();
      trait.set_name(name);
      trait.set_value(value);
    }
    nodes_.push_back({host, &report, std::nullopt});
    return report;
  }
  std::vector<std::string> Compared() {
    std::vector<std::string> lines;
    for (const v1::CheckResult& result : CompareNodes(nodes_, options_)) {
      lines.push_back(v1::Verdict_Name(result.verdict()) + " " + result.check() + ": " +
                      result.message());
      EXPECT_NE(result.fix(), "") << lines.back();
    }
    return lines;
  }

  std::list<v1::NodeReport> reports_;
  std::vector<ComparedNode> nodes_;
  CompareOptions options_;
};

TEST_F(CompareNodesTest, EqualNodesHaveNothingToTell) {
  for (const char* host : {"n1", "n2"}) {
    Add(host, {{"torch", "2.7.1"}, {"boot-id", host}, {"hostname", host}, {"env.HCCL_X", "1"}});
  }
  EXPECT_THAT(Compared(), IsEmpty());
}

TEST_F(CompareNodesTest, NetworksThatAreNotOneAreToldWithTheirNodes) {
  for (const char* host : {"n1", "n2"}) {
    Add(host, {{"subnet", "10.0.1.0/24"},
               {"availability-zone", "us-east-1a"},
               {"placement-group", "train"},
               {"instance-type", "dl1.24xlarge"}});
  }
  EXPECT_THAT(Compared(), IsEmpty());
  Add("n3", {{"subnet", "10.0.2.0/24"},
             {"availability-zone", "us-east-1b"},
             {"placement-group", ""},
             {"instance-type", "m5.large"}});
  EXPECT_THAT(
      Compared(),
      ElementsAre("WARN same-network: the subnet of the interface that HCCL uses differs: "
                  "10.0.1.0/24 on n1-2; 10.0.2.0/24 on n3",
                  "WARN same-network: the availability zone differs: us-east-1a on n1-2; "
                  "us-east-1b on n3",
                  "WARN same-network: the placement group differs: train on n1-2; none on n3"));
}

TEST_F(CompareNodesTest, CardsOfAnL3AndOfAnL2NetworkDoNotMeet) {
  options_.cards = true;
  Add("n1", {{"scale-out", "L3"}});
  Add("n2", {{"scale-out", "L3"}});
  Add("n3", {{"scale-out", "L2"}});
  EXPECT_THAT(Compared(), ElementsAre("FAIL same-network: the network of the cards (L3 with "
                                      "gaudinet.json, else L2) differs: L3 on n1-2; L2 on n3"));
}

TEST_F(CompareNodesTest, DifferentVersionsNameTheNodes) {
  for (const char* host : {"n1", "n2", "n3"}) Add(host, {{"torch", "2.7.1"}});
  Add("n4", {{"torch", "2.6.0"}});
  Add("n5", {});
  EXPECT_THAT(Compared(),
              ElementsAre("WARN same-software: torch differs: 2.7.1 on n1-3; 2.6.0 on n4"));
}

TEST_F(CompareNodesTest, DifferentDriversPreventAStartWithCards) {
  Add("n1", {{"driver", "1.22.0"}});
  Add("n2", {{"driver", "1.21.0"}});
  EXPECT_THAT(Compared(), ElementsAre(HasSubstr("WARN same-driver")));
  options_.cards = true;
  EXPECT_THAT(Compared(), ElementsAre(HasSubstr("FAIL same-driver")));
  *options_.skip_checks.Add() = "same-driver";
  EXPECT_THAT(Compared(), IsEmpty());
}

TEST_F(CompareNodesTest, RequiredComparisonsMustNotWarn) {
  Add("n1", {{"python", "3.10.12"}});
  Add("n2", {{"python", "3.11.2"}});
  *options_.require_checks.Add() = "same-software";
  EXPECT_THAT(Compared(), ElementsAre(HasSubstr("FAIL same-software: python differs")));
}

TEST_F(CompareNodesTest, AVariableThatOnlySomeHave) {
  Add("n1", {{"env.HCCL_OVER_OFI", "1"}});
  Add("n2");
  EXPECT_THAT(Compared(),
              ElementsAre("WARN same-environment: HCCL_OVER_OFI differs: not set on n2; 1 on n1"));
}

TEST_F(CompareNodesTest, OneMachineTwice) {
  Add("n1", {{"boot-id", "b1"}, {"hostname", "gaudi"}});
  Add("n2", {{"boot-id", "b1"}, {"hostname", "gaudi"}});
  EXPECT_THAT(Compared(), ElementsAre(HasSubstr("WARN same-machine: n1-2 are one machine")));
  options_.cards = true;
  EXPECT_THAT(Compared(), ElementsAre(HasSubstr("FAIL same-machine")));
}

TEST_F(CompareNodesTest, TwoMachinesOfOneName) {
  Add("n1", {{"boot-id", "b1"}, {"hostname", "gaudi"}});
  Add("n2", {{"boot-id", "b2"}, {"hostname", "gaudi"}});
  options_.cards = true;
  EXPECT_THAT(Compared(), ElementsAre(HasSubstr("FAIL same-hostname: n1-2 all have the host name "
                                                "gaudi")));
}

TEST_F(CompareNodesTest, ClocksThatDiffer) {
  Add("n1");
  Add("n2");
  nodes_[0].clock_offset = std::chrono::seconds(-90);
  nodes_[1].clock_offset = std::chrono::milliseconds(300);
  EXPECT_THAT(Compared(), ElementsAre("WARN clock: clocks differ from the coordinator's: n1 is "
                                      "1m30s behind"));
}

TEST_F(CompareNodesTest, NodesThatFoundTheSameShareALine) {
  for (const char* host : {"n1", "n2", "n4"}) {
    v1::CheckResult& result = *Add(host).add_results();
    result.set_check("hugepages");
    result.set_verdict(v1::WARN);
    result.set_message("none");
    result.set_fix(host == std::string("n4") ? "other" : "sysctl");
  }
  std::vector<std::string> lines;
  for (const FoldedResult& folded : FoldResults(nodes_, v1::WARN)) {
    lines.push_back(FoldedLine(folded));
  }
  EXPECT_THAT(lines,
              ElementsAre("[n1-2] hugepages: none (sysctl)", "[n4] hugepages: none (other)"));
}

// --- In a start ---

v1::Event PreparedWith(World& world, const std::string& node, const std::string& driver) {
  v1::Event event = world.EventOf(node);
  event.mutable_prepared()->add_addresses("192.0.2.1");
  v1::NodeReport& report = *event.mutable_prepared()->mutable_report();
  v1::NodeTrait& trait = *report.add_traits();
  trait.set_name("driver");
  trait.set_value(driver);
  v1::CheckResult& result = *report.add_results();
  result.set_check("hugepages");
  result.set_verdict(v1::WARN);
  result.set_message("too few");
  return event;
}

TEST(StartChecks, WarningsOfNodesAreTheJobsOnceAndFolded) {
  World world;
  world.JoinAll({"node-1", "node-2"});
  const JobId job = world.Submit(World::Spec({"node-1", "node-2"}));
  world.Tell("node-1", PreparedWith(world, "node-1", "1.22"));
  world.Tell("node-2", PreparedWith(world, "node-2", "1.21"));
  world.Settle();
  const v1::Job seen = world.Job(job);
  EXPECT_EQ(seen.state(), v1::Job::RUNNING);
  EXPECT_THAT(
      seen.warnings(),
      ElementsAre("[node-1-2] hugepages: too few",
                  HasSubstr("same-driver: driver differs: 1.21 on node-2; 1.22 on node-1")));
  EXPECT_EQ(seen.nodes(0).report().results(0).check(), "hugepages");
  EXPECT_TRUE(seen.nodes(0).report().traits().empty());
}

TEST(StartChecks, OtherWarningsOfNodesAreFoldedLikeThoseOfChecks) {
  World world;
  world.JoinAll({"node-1", "node-2"});
  const JobId job = world.Submit(World::Spec({"node-1", "node-2"}));
  for (const char* node : {"node-1", "node-2"}) {
    v1::Event event = world.EventOf(node);
    event.mutable_prepared()->add_addresses("192.0.2.1");
    event.mutable_prepared()->add_warnings("ranks are not bound: no topology");
    if (node == std::string_view("node-2")) event.mutable_prepared()->add_warnings("late");
    world.Tell(node, event);
  }
  world.Settle();
  EXPECT_EQ(world.Job(job).state(), v1::Job::RUNNING);
  EXPECT_THAT(world.Job(job).warnings(),
              ElementsAre("[node-1-2] ranks are not bound: no topology", "[node-2] late"));
}

TEST(StartChecks, WarningsOfNodesAreToldWhenNothingStarts) {
  World world;
  world.JoinAll({"node-1", "node-2"});
  const JobId job = world.Submit(World::Spec({"node-1", "node-2"}));
  v1::Event event = world.EventOf("node-1");
  event.mutable_prepared()->add_addresses("192.0.2.1");
  event.mutable_prepared()->add_warnings("ranks are not bound: no topology");
  world.Tell("node-1", event);
  world.Cancel(job);
  world.StoppedAll();
  EXPECT_EQ(world.Job(job).state(), v1::Job::CANCELLED);
  EXPECT_THAT(world.Job(job).warnings(), ElementsAre("[node-1] ranks are not bound: no topology"));
}

TEST(StartChecks, WhatMustBeEqualAndIsNotPreventsTheStart) {
  World world;
  world.JoinAll({"node-1", "node-2"});
  v1::JobSpec spec = World::Spec({"node-1", "node-2"});
  spec.add_require_checks("same-driver");
  const JobId job = world.Submit(spec);
  world.Tell("node-1", PreparedWith(world, "node-1", "1.22"));
  world.Tell("node-2", PreparedWith(world, "node-2", "1.21"));
  world.Settle();
  const v1::Job seen = world.Job(job);
  EXPECT_EQ(seen.state(), v1::Job::STOPPING);
  EXPECT_EQ(seen.cause(), v1::Job::PREPARE_FAILED);
  EXPECT_THAT(seen.reason(), HasSubstr("the nodes do not fit together: same-driver"));
  world.StoppedAll();
  EXPECT_EQ(world.Job(job).exit_code(), 120);
}

TEST(StartChecks, TheSameAfterARestartOfTheCoordinator) {
  World world;
  world.JoinAll({"node-1", "node-2"});
  const JobId job = world.Submit(World::Spec({"node-1", "node-2"}));
  world.Tell("node-1", PreparedWith(world, "node-1", "1.22"));
  world.Tell("node-2", PreparedWith(world, "node-2", "1.21"));
  world.Settle();
  const auto before = world.Job(job).warnings();
  world.Crash();
  world.Restart();
  EXPECT_EQ(world.Job(job).warnings_size(), before.size());
  EXPECT_EQ(world.Job(job).warnings(0), before[0]);
}

}  // namespace
}  // namespace muster::testing
