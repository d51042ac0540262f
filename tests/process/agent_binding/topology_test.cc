// Topologies that hwloc reads: of files, and of this machine.
#include "agent/binding/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hwloc.h>
#include <sched.h>

#include <fstream>
#include <thread>

#include "tests/testing/temp_folder.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Writes what hwloc makes of `synthetic`, less the processors of `without`.
void Export(const std::string& synthetic, const std::string& file, const char* without = nullptr) {
  hwloc_topology_t topology = nullptr;
  ASSERT_EQ(hwloc_topology_init(&topology), 0);
  ASSERT_EQ(hwloc_topology_set_synthetic(topology, synthetic.c_str()), 0);
  ASSERT_EQ(hwloc_topology_load(topology), 0);
  if (without != nullptr) {
    hwloc_bitmap_t left = hwloc_bitmap_alloc();
    hwloc_bitmap_list_sscanf(left, without);
    hwloc_bitmap_andnot(left, hwloc_topology_get_topology_cpuset(topology), left);
    ASSERT_EQ(hwloc_topology_restrict(topology, left, 0), 0);
    hwloc_bitmap_free(left);
  }
  ASSERT_EQ(hwloc_topology_export_xml(topology, file.c_str(), 0), 0);
  hwloc_topology_destroy(topology);
}

std::vector<uint32_t> OwnCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(::sched_getaffinity(0, sizeof(set), &set), 0);
  std::vector<uint32_t> cpus;
  for (uint32_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

CpuList CpusOf(const TopologyFacts& facts) {
  CpuList cpus;
  for (const CoreFacts& core : facts.cores) {
    cpus.insert(cpus.end(), core.cpus.begin(), core.cpus.end());
  }
  std::sort(cpus.begin(), cpus.end());
  return cpus;
}

TEST(LoadTopology, ReadsTwoSocketsWithThreads) {
  const TempFolder root;
  Export("pack:2 [numa] core:3 pu:2", root.File("topology.xml"));
  const absl::StatusOr<TopologyFacts> facts = LoadTopology(root.path());
  ASSERT_TRUE(facts.ok()) << facts.status();
  ASSERT_EQ(facts->cores.size(), 6u);
  EXPECT_THAT(facts->cores[0].cpus, ElementsAre(0, 1));
  EXPECT_THAT(facts->cores[5].cpus, ElementsAre(10, 11));
  EXPECT_EQ(facts->cores[2].numa_node, 0);
  EXPECT_EQ(facts->cores[3].numa_node, 1);
  ASSERT_EQ(facts->nodes.size(), 2u);
  EXPECT_THAT(facts->nodes[1].cpus, ElementsAre(6, 7, 8, 9, 10, 11));
}

TEST(LoadTopology, KnowsWhatIsOffline) {
  const TempFolder root;
  Export("pack:2 [numa] core:2 pu:2", root.File("topology.xml"), "0,1,7");
  const absl::StatusOr<TopologyFacts> facts = LoadTopology(root.path());
  ASSERT_TRUE(facts.ok()) << facts.status();
  ASSERT_EQ(facts->cores.size(), 3u);
  EXPECT_EQ(CpusOf(*facts), (CpuList{2, 3, 4, 5, 6}));
}

TEST(LoadTopology, AVirtualMachineWithoutCoresHasItsProcessors) {
  const TempFolder root;
  Export("pu:4", root.File("topology.xml"));
  const absl::StatusOr<TopologyFacts> facts = LoadTopology(root.path());
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->cores.size(), 4u);
}

TEST(LoadTopology, NamesAFileThatIsNone) {
  const TempFolder root;
  std::ofstream(root.File("topology.xml")) << "<topology";
  const absl::StatusOr<TopologyFacts> facts = LoadTopology(root.path());
  ASSERT_FALSE(facts.ok());
  EXPECT_THAT(std::string(facts.status().message()), HasSubstr(root.File("topology.xml")));
}

TEST(LoadTopology, OfThisMachineHasWhatTheThreadMayUse) {
  const TempFolder without_file;
  for (const std::string& root : {std::string(), without_file.path()}) {
    const absl::StatusOr<TopologyFacts> facts = LoadTopology(root);
    ASSERT_TRUE(facts.ok()) << facts.status();
    EXPECT_EQ(CpusOf(*facts), OwnCpus());
  }
  if (OwnCpus().size() < 2) GTEST_SKIP() << "this machine has a single processor";
  const uint32_t last = OwnCpus().back();
  std::thread([&] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(last, &set);
    ASSERT_EQ(::sched_setaffinity(0, sizeof(set), &set), 0);
    const absl::StatusOr<TopologyFacts> facts = LoadTopology("");
    ASSERT_TRUE(facts.ok()) << facts.status();
    EXPECT_THAT(CpusOf(*facts), ElementsAre(last));
  }).join();
}

}  // namespace
}  // namespace muster
