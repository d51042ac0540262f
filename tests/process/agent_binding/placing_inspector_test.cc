// Ranks are placed beside the loop, on what this machine lets them have.
#include "agent/binding/placing_inspector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <chrono>
#include <optional>

#include "agent/binding/try_placements.h"
#include "common/io/event_loop.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

CpuList OwnCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(::sched_getaffinity(0, sizeof(set), &set), 0);
  CpuList cpus;
  for (uint32_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

v1::RankPlacement Placed(uint32_t rank, const std::string& cpus, int node) {
  v1::RankPlacement placement;
  placement.set_rank(rank);
  placement.set_cpus(cpus);
  placement.set_memory_node(node);
  placement.set_omp_num_threads(40);
  placement.set_reason("card 0 is at NUMA node 0");
  return placement;
}

class PlacingInspectorTest : public ::testing::Test {
 protected:
  // What the inspector says about a launch of `ranks` ranks.
  Inspection Inspect(const std::string& bind, int ranks) {
    v1::LaunchSpec launch;
    launch.set_bind(bind);
    for (int i = 0; i < ranks; ++i) launch.add_ranks()->set_rank(static_cast<uint32_t>(i));
    const AttemptId attempt{JobId("j1"), 1};
    const RunAs user;
    const internal::ShimBootstrap bootstrap;
    std::optional<Inspection> found;
    inspector_.Inspect({attempt, launch, user, bootstrap}, [&](Inspection inspection) {
      found = std::move(inspection);
      loop_.Stop();
    });
    EXPECT_FALSE(found.has_value());
    loop_.PostAfter(std::chrono::seconds(60), [this] { loop_.Stop(); });
    loop_.Run();
    EXPECT_TRUE(found.has_value());
    return found.value_or(Inspection());
  }

  EventLoop loop_;
  PlacingInspector inspector_{loop_, [] { return v1::DeviceInventory(); }, ""};
};

TEST_F(PlacingInspectorTest, GivesRanksCoresOfThisMachine) {
  const CpuList before = OwnCpus();
  const Inspection found = Inspect("cores", 1);
  ASSERT_EQ(found.placements.size(), 1u);
  EXPECT_EQ(found.placements[0].cpus(), CpuListText(before));
  EXPECT_GE(found.placements[0].omp_num_threads(), 1u);
  EXPECT_EQ(OwnCpus(), before);
  // The second time nothing is loaded.
  EXPECT_EQ(Inspect("cores", 1).placements[0].cpus(), CpuListText(before));
}

TEST_F(PlacingInspectorTest, LaunchesThatBindNothingNeedNoThread) {
  EXPECT_THAT(Inspect("", 2).placements, IsEmpty());
  EXPECT_THAT(Inspect("none", 2).placements, IsEmpty());
  const Inspection found = Inspect("numa", 2);
  ASSERT_EQ(found.placements.size(), 2u);
  EXPECT_EQ(found.placements[0].cpus(), "");
  EXPECT_THAT(found.warnings, IsEmpty());
}

TEST_F(PlacingInspectorTest, MayEndWhileItLooks) {
  EventLoop loop;
  auto inspector = std::make_unique<PlacingInspector>(
      loop, [] { return v1::DeviceInventory(); }, "");
  v1::LaunchSpec launch;
  launch.set_bind("cores");
  launch.add_ranks();
  const AttemptId attempt{JobId("j1"), 1};
  const RunAs user;
  const internal::ShimBootstrap bootstrap;
  bool told = false;
  inspector->Inspect({attempt, launch, user, bootstrap}, [&](const Inspection&) { told = true; });
  inspector.reset();
  loop.Post([&] { loop.Stop(); });
  loop.Run();
  EXPECT_FALSE(told);
}

TEST(TryPlacements, TakesBackWhatCannotBeHad) {
  const CpuList before = OwnCpus();
  const std::string first = std::to_string(before.front());
  Placements placements;
  placements.ranks = {Placed(0, "60000-60007", 0), Placed(1, "60000-60007", 0),
                      Placed(2, first + ",60000", -1), Placed(3, first, 1000), Placed(4, "", -1)};
  TryPlacements(&placements);
  EXPECT_EQ(OwnCpus(), before);
  for (int rank : {0, 1}) {
    EXPECT_EQ(placements.ranks[rank].cpus(), "");
    EXPECT_EQ(placements.ranks[rank].memory_node(), -1);
    EXPECT_EQ(placements.ranks[rank].omp_num_threads(), 0u);
    EXPECT_THAT(placements.ranks[rank].reason(), HasSubstr("60000-60007 cannot be had"));
  }
  EXPECT_EQ(placements.ranks[2].cpus(), first);
  EXPECT_EQ(placements.ranks[2].omp_num_threads(), 1u);
  EXPECT_EQ(placements.ranks[3].cpus(), first);
  EXPECT_EQ(placements.ranks[3].memory_node(), -1);
  EXPECT_THAT(placements.warnings, ElementsAre(HasSubstr("not bound to processors 60000-60007"),
                                               HasSubstr("only processors " + first + " of"),
                                               HasSubstr("memory of NUMA node 1000")));
}

}  // namespace
}  // namespace muster
