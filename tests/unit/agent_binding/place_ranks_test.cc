#include "agent/binding/place_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Property;

// Cores are numbered through; hardware thread t of core c is processor c + t * (all cores), as
// Linux has it on x86.
TopologyFacts Machine(uint32_t nodes, uint32_t cores_of_node, uint32_t threads = 1) {
  TopologyFacts facts;
  const uint32_t all = nodes * cores_of_node;
  for (uint32_t node = 0; node < nodes; ++node) {
    NumaNodeFacts numa{static_cast<int32_t>(node), {}};
    for (uint32_t core = node * cores_of_node; core < (node + 1) * cores_of_node; ++core) {
      CpuList cpus;
      for (uint32_t thread = 0; thread < threads; ++thread) cpus.push_back(core + thread * all);
      numa.cpus.insert(numa.cpus.end(), cpus.begin(), cpus.end());
      facts.cores.push_back({std::move(cpus), numa.number});
    }
    std::sort(numa.cpus.begin(), numa.cpus.end());
    facts.nodes.push_back(std::move(numa));
  }
  return facts;
}

// Card i is module i at the NUMA node given for it.
v1::DeviceInventory Cards(const std::vector<int32_t>& nodes) {
  v1::DeviceInventory inventory;
  for (size_t i = 0; i < nodes.size(); ++i) {
    v1::Device& card = *inventory.add_devices();
    card.set_module_id(static_cast<uint32_t>(i));
    card.set_numa_node(nodes[i]);
  }
  return inventory;
}

const std::vector<int32_t> kEight = {0, 0, 0, 0, 1, 1, 1, 1};

v1::LaunchSpec Launch(const std::string& bind, const std::vector<uint32_t>& slots, bool cards) {
  v1::LaunchSpec launch;
  launch.set_bind(bind);
  launch.set_slots_are_cards(cards);
  for (size_t i = 0; i < slots.size(); ++i) {
    v1::RankSpec& rank = *launch.add_ranks();
    rank.set_rank(static_cast<uint32_t>(100 + i));
    rank.set_local_rank(static_cast<uint32_t>(i));
    rank.set_slot(slots[i]);
  }
  return launch;
}

Placements Place(const v1::LaunchSpec& launch, const v1::DeviceInventory& devices,
                 const TopologyFacts& topology, const BindVariables& variables = {}) {
  EXPECT_TRUE(NeedsTopology(launch));
  return PlaceRanks(launch, devices, topology, variables);
}

std::vector<std::string> CpusOf(const Placements& placements) {
  std::vector<std::string> cpus;
  for (const auto& rank : placements.ranks) cpus.push_back(rank.cpus());
  return cpus;
}

std::vector<int> NodesOf(const Placements& placements) {
  std::vector<int> nodes;
  for (const auto& rank : placements.ranks) nodes.push_back(rank.memory_node());
  return nodes;
}

std::vector<uint32_t> ThreadsOf(const Placements& placements) {
  std::vector<uint32_t> threads;
  for (const auto& rank : placements.ranks) threads.push_back(rank.omp_num_threads());
  return threads;
}

TEST(PlaceRanks, NumaGivesEveryRankTheProcessorsNearItsCard) {
  const Placements placed =
      Place(Launch("numa", {0, 1, 2, 3, 4, 5, 6, 7}, true), Cards(kEight), Machine(2, 24, 2));
  const std::string first = "0-23,48-71";
  const std::string second = "24-47,72-95";
  EXPECT_THAT(CpusOf(placed),
              ElementsAre(first, first, first, first, second, second, second, second));
  EXPECT_THAT(NodesOf(placed), ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
  EXPECT_THAT(ThreadsOf(placed), Each(6u));
  EXPECT_EQ(placed.ranks[7].rank(), 107u);
  EXPECT_EQ(placed.ranks[7].reason(), "card 7 is at NUMA node 1");
  EXPECT_THAT(placed.warnings, IsEmpty());
}

TEST(PlaceRanks, NumaDividesThreadsByTheRanksThatShareANode) {
  const Placements placed =
      Place(Launch("numa", {0, 5, 6}, true), Cards(kEight), Machine(2, 24, 2));
  EXPECT_THAT(NodesOf(placed), ElementsAre(0, 1, 1));
  EXPECT_THAT(ThreadsOf(placed), ElementsAre(24, 12, 12));
}

TEST(PlaceRanks, NumaFollowsTheBoardAndNotTheOrderOfCards) {
  EXPECT_THAT(
      NodesOf(Place(Launch("numa", {0, 1, 2, 3}, true), Cards({1, 0, 1, 0}), Machine(2, 4))),
      ElementsAre(1, 0, 1, 0));
}

TEST(PlaceRanks, NothingIsBoundWhereACardsNodeIsNotKnown) {
  const Placements placed = Place(Launch("numa", {0, 1}, true), Cards({-1, -1}), Machine(1, 8));
  EXPECT_THAT(CpusOf(placed), Each(""));
  EXPECT_THAT(NodesOf(placed), Each(-1));
  EXPECT_THAT(ThreadsOf(placed), Each(0u));
  EXPECT_THAT(placed.ranks[0].reason(), HasSubstr("virtual machines"));
  EXPECT_THAT(placed.warnings, IsEmpty());
}

TEST(PlaceRanks, WhatTheBusSaysCountsWhereTheTopologyHasNoSuchNode) {
  v1::DeviceInventory cards = Cards({3});
  cards.mutable_devices(0)->set_local_cpus("2-3,64");
  const Placements placed = Place(Launch("numa", {0}, true), cards, Machine(1, 4));
  EXPECT_THAT(CpusOf(placed), ElementsAre("2-3"));
  EXPECT_THAT(NodesOf(placed), ElementsAre(-1));
}

TEST(PlaceRanks, AnAgentThatMayNotUseTheNodeOfACardSaysSo) {
  TopologyFacts topology = Machine(2, 4);
  // As in a control group that has the first socket only.
  topology.cores.resize(4);
  topology.nodes[1].cpus.clear();
  for (const char* bind : {"numa", "cores"}) {
    const Placements placed = Place(Launch(bind, {0, 4, 5}, true), Cards(kEight), topology);
    EXPECT_THAT(placed.ranks[0].cpus(), Not(IsEmpty())) << bind;
    EXPECT_EQ(placed.ranks[1].cpus(), "") << bind;
    EXPECT_THAT(placed.warnings, ElementsAre(HasSubstr("no processor of NUMA node 1"))) << bind;
  }
}

TEST(PlaceRanks, UsesOnlyWhatItsControlGroupLeavesOfANode) {
  TopologyFacts topology = Machine(1, 8);
  topology.cores.erase(topology.cores.begin(), topology.cores.begin() + 3);
  EXPECT_THAT(CpusOf(Place(Launch("numa", {0}, true), Cards({0}), topology)), ElementsAre("3-7"));
}

TEST(PlaceRanks, CoresOfANodeAreDividedByItsCards) {
  const Placements placed =
      Place(Launch("cores", {0, 1, 2, 3, 4, 5, 6, 7}, true), Cards(kEight), Machine(2, 26, 2));
  EXPECT_THAT(CpusOf(placed),
              ElementsAre("0-5,52-57", "6-11,58-63", "12-17,64-69", "18-23,70-75", "26-31,78-83",
                          "32-37,84-89", "38-43,90-95", "44-49,96-101"));
  EXPECT_THAT(NodesOf(placed), ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
  EXPECT_THAT(ThreadsOf(placed), Each(6u));
  EXPECT_EQ(placed.ranks[5].reason(),
            "card 5 has 6 of the 26 cores at NUMA node 1, which 4 cards share");
}

TEST(PlaceRanks, JobsOnOtherCardsOfANodeGetOtherCores) {
  const v1::DeviceInventory cards = Cards(kEight);
  const TopologyFacts topology = Machine(2, 8, 2);
  std::multiset<uint32_t> used;
  for (const std::vector<uint32_t>& slots :
       std::vector<std::vector<uint32_t>>{{0, 1}, {2}, {3, 4}, {7, 5, 6}}) {
    for (const std::string& text : CpusOf(Place(Launch("cores", slots, true), cards, topology))) {
      const CpuList cpus = *ParseCpuList(text);
      EXPECT_EQ(cpus.size(), 4u);
      used.insert(cpus.begin(), cpus.end());
    }
  }
  EXPECT_EQ(used.size(), 32u);
  EXPECT_EQ(std::set<uint32_t>(used.begin(), used.end()).size(), 32u);
}

TEST(PlaceRanks, CoresAreDividedByAllCardsOfAVirtualMachine) {
  const v1::DeviceInventory cards = Cards({-1, -1, -1, -1});
  const Placements placed = Place(Launch("cores", {2, 3}, true), cards, Machine(1, 8));
  EXPECT_THAT(CpusOf(placed), ElementsAre("4-5", "6-7"));
  EXPECT_THAT(placed.ranks[0].reason(), HasSubstr("2 of the 8 cores, which 4 cards share"));
}

TEST(PlaceRanks, TenCardsShareWhatThereIs) {
  const std::vector<int32_t> ten = {0, 0, 0, 0, 0, 1, 1, 1, 1, 1};
  const std::vector<uint32_t> all = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  const Placements placed = Place(Launch("cores", all, true), Cards(ten), Machine(2, 16));
  EXPECT_THAT(ThreadsOf(placed), Each(3u));
  EXPECT_EQ(placed.ranks[9].cpus(), "28-30");
  const Placements short_of = Place(Launch("cores", all, true), Cards(ten), Machine(2, 4));
  EXPECT_THAT(CpusOf(short_of), Each(""));
  EXPECT_THAT(short_of.warnings, ElementsAre(HasSubstr("5 cards and only 4 cores at NUMA node 0"),
                                             HasSubstr("5 cards and only 4 cores at NUMA node 1")));
}

TEST(PlaceRanks, ACardThatNobodyKnowsIsNotBound) {
  for (const char* bind : {"numa", "cores"}) {
    const Placements placed = Place(Launch(bind, {9, 0}, true), Cards(kEight), Machine(2, 8));
    EXPECT_EQ(placed.ranks[0].cpus(), "");
    EXPECT_NE(placed.ranks[1].cpus(), "");
    EXPECT_THAT(placed.warnings, ElementsAre(HasSubstr("card 9 is not among")));
  }
}

TEST(PlaceRanks, CoresWithoutCardsAreDividedByRanks) {
  const struct {
    uint32_t nodes, cores, threads;
    size_t ranks;
    std::vector<std::string> cpus;
    std::vector<int> memory;
    uint32_t omp;
  } cases[] = {
      {1, 2, 1, 2, {"0", "1"}, {0, 0}, 1},
      {2, 4, 2, 2, {"0-3,8-11", "4-7,12-15"}, {0, 1}, 4},
      // The one in the middle has cores of both nodes.
      {2, 4, 1, 3, {"0-1", "2-3", "4-5"}, {0, 0, 1}, 2},
      {2, 3, 1, 2, {"0-2", "3-5"}, {0, 1}, 3},
      {2, 3, 1, 3, {"0-1", "2-3", "4-5"}, {0, -1, 1}, 2},
      {1, 8, 1, 1, {"0-7"}, {0}, 8},
  };
  for (const auto& c : cases) {
    const std::vector<uint32_t> slots(c.ranks, 0);
    const Placements placed =
        Place(Launch("cores", slots, false), {}, Machine(c.nodes, c.cores, c.threads));
    EXPECT_EQ(CpusOf(placed), c.cpus);
    EXPECT_EQ(NodesOf(placed), c.memory);
    EXPECT_THAT(ThreadsOf(placed), Each(c.omp));
  }
}

TEST(PlaceRanks, MoreRanksThanCoresAreNotBound) {
  const Placements placed = Place(Launch("cores", {0, 1, 2}, false), {}, Machine(1, 2, 2));
  EXPECT_THAT(CpusOf(placed), Each(""));
  EXPECT_THAT(ThreadsOf(placed), Each(0u));
  EXPECT_THAT(placed.warnings,
              ElementsAre("ranks are not bound: there are 3 ranks and only 2 cores"));
}

TEST(PlaceRanks, OnlyTheProcessorsOfTheListAreDivided) {
  v1::LaunchSpec launch = Launch("cores", {0, 1}, false);
  launch.set_bind_core_list("2-5,10-13");
  EXPECT_THAT(CpusOf(Place(launch, {}, Machine(1, 8, 2))), ElementsAre("2-3,10-11", "4-5,12-13"));
  // Without the second threads of the cores.
  launch.set_bind_core_list("0-3");
  EXPECT_THAT(CpusOf(Place(launch, {}, Machine(1, 8, 2))), ElementsAre("0-1", "2-3"));
  v1::LaunchSpec near = Launch("numa", {0, 4}, true);
  near.set_bind_core_list("1,9-10");
  EXPECT_THAT(CpusOf(Place(near, Cards(kEight), Machine(2, 8))), ElementsAre("1", "9-10"));
}

TEST(PlaceRanks, AListWithWhatIsNotThereIsAProblemThatNamesIt) {
  v1::LaunchSpec launch = Launch("cores", {0, 1}, false);
  launch.set_bind_core_list("0-2,6-9");
  const Placements placed = Place(launch, {}, Machine(1, 8));
  ASSERT_EQ(placed.problems.size(), 1u);
  EXPECT_EQ(placed.problems[0].check(), "bind");
  EXPECT_THAT(placed.problems[0].message(), AllOf(HasSubstr("processors 8-9"), HasSubstr("0-7")));
  for (const char* list : {"x", ","}) {
    launch.set_bind_core_list(list);
    EXPECT_EQ(Place(launch, {}, Machine(1, 8)).problems.size(), 1u) << list;
  }
}

TEST(PlaceRanks, LeavesTheUsersThreadsAndWarnsOfOtherAffinity) {
  internal::ShimBootstrap bootstrap;
  internal::ShimRank& rank = *bootstrap.add_ranks();
  for (const char* pair : {"A=1", "GOMP_CPU_AFFINITY=0", "KMP_AFFINITY=", "OMP_NUM_THREADS=3"}) {
    rank.add_env(pair);
  }
  const BindVariables variables = ReadBindVariables(bootstrap);
  const Placements placed = Place(Launch("cores", {0, 1}, false), {}, Machine(1, 8), variables);
  EXPECT_THAT(ThreadsOf(placed), Each(0u));
  EXPECT_THAT(placed.warnings,
              ElementsAre(HasSubstr("GOMP_CPU_AFFINITY is set"), HasSubstr("KMP_AFFINITY is set")));
  // Of no concern where nothing is bound.
  EXPECT_THAT(Place(Launch("numa", {0}, true), Cards({-1}), Machine(1, 8), variables).warnings,
              IsEmpty());
}

TEST(PlaceWithoutTopology, SaysWhyNothingIsBound) {
  const v1::LaunchSpec numa = Launch("numa", {0, 1}, false);
  ASSERT_FALSE(NeedsTopology(numa));
  const Placements placed = PlaceWithoutTopology(numa);
  EXPECT_THAT(placed.ranks, ElementsAre(Property(&v1::RankPlacement::rank, 100),
                                        Property(&v1::RankPlacement::rank, 101)));
  EXPECT_THAT(CpusOf(placed), Each(""));
  EXPECT_THAT(placed.ranks[0].reason(), HasSubstr("no card"));
  for (const char* bind : {"", "none"}) {
    for (const bool cards : {false, true}) {
      ASSERT_FALSE(NeedsTopology(Launch(bind, {0}, cards)));
      EXPECT_THAT(PlaceWithoutTopology(Launch(bind, {0}, cards)).ranks, IsEmpty());
    }
  }
  EXPECT_FALSE(NeedsTopology(Launch("cores", {}, false)));
}

TEST(PlaceWithoutTopology, BindsNoClientOfAContainerEngine) {
  for (const char* bind : {"numa", "cores"}) {
    for (const bool cards : {false, true}) {
      v1::LaunchSpec launch = Launch(bind, {0, 1}, cards);
      launch.mutable_container()->set_image("train");
      ASSERT_FALSE(NeedsTopology(launch));
      const Placements placed = PlaceWithoutTopology(launch);
      ASSERT_EQ(placed.ranks.size(), 2u);
      EXPECT_THAT(CpusOf(placed), Each(""));
      EXPECT_THAT(ThreadsOf(placed), Each(0u));
      EXPECT_THAT(placed.ranks[0].reason(), HasSubstr("container"));
      // Who asked for processors hears that there are none; "numa" is the default.
      EXPECT_EQ(placed.warnings.empty(), launch.bind() == "numa");
    }
  }
  v1::LaunchSpec none = Launch("none", {0}, true);
  none.mutable_container()->set_image("train");
  EXPECT_THAT(PlaceWithoutTopology(none).ranks, IsEmpty());
}

}  // namespace
}  // namespace muster
