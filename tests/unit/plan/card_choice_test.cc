#include "coordinator/plan/card_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/annotate.h"
#include "coordinator/plan/plan_job.h"
#include "tests/unit/plan/plan_fixtures.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<uint32_t> kEight = {0, 1, 2, 3, 4, 5, 6, 7};

TEST(ChooseCards, TakesAGroupWhereThereIsOne) {
  EXPECT_THAT(ChooseCards(4, kEight, {}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(ChooseCards(4, {1, 2, 3, 4, 5, 6, 7}, {}), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(ChooseCards(2, {1, 2, 5, 6, 7}, {}), ElementsAre(6, 7));
  // Nothing better is free.
  EXPECT_THAT(ChooseCards(2, {1, 2, 5}, {}), ElementsAre(1, 2));
  EXPECT_THAT(ChooseCards(4, {0, 1, 2, 4, 5, 6}, {}), ElementsAre(0, 1, 2, 4));
}

TEST(ChooseCards, LeavesLargerGroupsWhole) {
  EXPECT_THAT(ChooseCards(2, {0, 1, 2, 3, 6, 7}, {}), ElementsAre(6, 7));
  EXPECT_THAT(ChooseCards(1, {0, 1, 2, 3, 5, 6, 7}, {}), ElementsAre(5));
  EXPECT_THAT(ChooseCards(1, kEight, {}), ElementsAre(0));
}

TEST(ChooseCards, TakesDoubtfulCardsLast) {
  CardUse use;
  use.doubtful = {{0, "pid 1"}, {1, "pid 1"}};
  EXPECT_THAT(ChooseCards(4, kEight, use), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(ChooseCards(2, {0, 1, 2, 5}, use), ElementsAre(2, 5)) << "better apart than held";
  EXPECT_THAT(ChooseCards(8, kEight, use).size(), 8u);
}

TEST(ChooseCards, KnowsNoGroupsAmongOtherModules) {
  EXPECT_THAT(ChooseCards(2, {8, 9, 10, 11}, {}), ElementsAre(8, 9));
}

TEST(DescribeUse, TellsCardsOfOneHolderTogether) {
  CardUse use;
  use.taken = {{0, "alice, job a"}, {1, "alice, job a"}, {4, "bob, job b"}};
  use.doubtful = {{7, "pid 7 of carol (python3)"}};
  EXPECT_EQ(DescribeUse(use),
            "cards 0-1: alice, job a; card 4: bob, job b; card 7: pid 7 of carol (python3)");
}

NodeView CardNode(const std::string& name, const std::vector<uint32_t>& modules) {
  NodeView node;
  node.id = NodeId(name);
  for (const uint32_t module : modules) node.facts.add_slots(module);
  node.facts.set_slots_are_cards(true);
  node.facts.set_cpu_count(160);
  return node;
}

TEST(SlotsOf, GivesPlainSlotsOnANodeWithCardsToAJobThatWantsNone) {
  const NodeView node = CardNode("a", {3, 5});
  EXPECT_TRUE(SlotsOf(node).are_modules);
  EXPECT_THAT(SlotsOf(node, "gaudi").slots, ElementsAre(3, 5));
  const NodeSlots plain = SlotsOf(node, "none");
  EXPECT_FALSE(plain.are_modules);
  v1::JobSpec spec = ScriptJob();
  spec.set_devices("none");
  AddHost(spec, "a", 0);
  AddHost(spec, "b", 20);
  const v1::Plan plan = *PlanJob(spec, std::vector{plain, SlotsOf(CardNode("b", {0}), "none")});
  EXPECT_EQ(plan.nodes(0).launch().ranks_size(), 8);
  EXPECT_EQ(plan.nodes(1).launch().ranks_size(), 20);
  EXPECT_FALSE(plan.nodes(0).launch().slots_are_cards());
  EXPECT_EQ(EnvOf(plan.nodes(0).launch().ranks(0), "HABANA_VISIBLE_MODULES"), "(unset)");
}

TEST(PlanJob, TellsNodesThatSlotsAreCards) {
  v1::JobSpec spec = ScriptJob();
  spec.mutable_device_wait()->set_seconds(9);
  AddHost(spec, "a", 2);
  const v1::Plan plan = *PlanJob(spec, std::vector{SlotsOf(CardNode("a", {4, 5, 6, 7}))});
  const v1::LaunchSpec& launch = plan.nodes(0).launch();
  EXPECT_TRUE(launch.slots_are_cards());
  EXPECT_EQ(launch.node_count(), 1u);
  EXPECT_EQ(launch.device_wait().seconds(), 9);
  EXPECT_EQ(EnvOf(launch.ranks(1), "HABANA_VISIBLE_MODULES"), "4,5");
  EXPECT_EQ(EnvOf(launch.ranks(1), "HLS_MODULE_ID"), "5");
}

TEST(PlanJob, RefusesMoreCardsThanANodeHasAndSaysWhy) {
  v1::JobSpec spec = ScriptJob();
  AddHost(spec, "node-1", 8);
  NodeView node = CardNode("node-1", {4, 5, 6, 7});
  node.facts.mutable_devices()->add_problems()->set_message("module 3 is Disabled");
  const auto plan = PlanJob(spec, std::vector{SlotsOf(node)});
  EXPECT_EQ(MessageOf(plan.status()),
            "hostfile:1: node-1 asks for 8 cards, node node-1 has 4 cards (4-7) (module 3 is "
            "Disabled)");
}

TEST(PlanJob, RefusesNodesWithoutCardsToAJobThatWantsThem) {
  v1::JobSpec spec = ScriptJob();
  spec.set_devices("gaudi");
  AddHost(spec, "a", 2);
  const auto plan = PlanJob(spec, std::vector{Node("a", {0, 1})});
  EXPECT_THAT(std::string(MessageOf(plan.status())), HasSubstr("node a has none"));
}

TEST(PlanJob, WarnsWherePlainSlotsStandInForCardsThatCannotBeUsed) {
  v1::JobSpec spec = ScriptJob();
  AddHost(spec, "a", 2);
  NodeView node;
  node.id = NodeId("a");
  for (const uint32_t slot : {0, 1}) node.facts.add_slots(slot);
  node.facts.mutable_devices()->add_problems()->set_message("hl-smi took longer than 5000 ms");
  const v1::Plan plan = *PlanJob(spec, std::vector{SlotsOf(node)});
  EXPECT_THAT(plan.warnings(), ElementsAre(AllOf(HasSubstr("no card is used on node a"),
                                                 HasSubstr("hl-smi took longer"))));
  spec.set_devices("gaudi");
  EXPECT_THAT(std::string(MessageOf(PlanJob(spec, std::vector{SlotsOf(node)}).status())),
              HasSubstr("hl-smi took longer"));
}

TEST(PlanJob, TellsWhoHoldsTheCardsWhenTooFewAreFree) {
  v1::JobSpec spec = ScriptJob();
  AddHost(spec, "a", 4);
  NodeSlots node = SlotsOf(CardNode("a", kEight));
  for (uint32_t card = 0; card < 6; ++card) node.use.taken[card] = "alice, job k3x (llama)";
  const auto plan = PlanJob(spec, std::vector{node});
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(MessageOf(plan.status())),
              AllOf(HasSubstr("hostfile:1: a asks for 4 cards"), HasSubstr("only 2 (6-7) are free"),
                    HasSubstr("cards 0-5: alice, job k3x (llama)")));
}

TEST(PlanJob, LeavesCardsThatWereAskedForByNumberAsTheyAre) {
  v1::JobSpec spec = ScriptJob();
  AddHost(spec, "a", 8, {1, 2});
  NodeSlots node = SlotsOf(CardNode("a", kEight));
  node.use.taken[1] = "alice, job k3x";
  const v1::Plan plan = *PlanJob(spec, std::vector{node});
  EXPECT_EQ(plan.nodes(0).launch().ranks(0).slot(), 1u);
  EXPECT_THAT(plan.warnings(), ElementsAre(HasSubstr("cards 1-2 are not a group")));
}

}  // namespace
}  // namespace muster
