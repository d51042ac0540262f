// A real muster-shim puts ranks on processors and near memory.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/process/shim/shim_client.h"

namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// A processor that no machine has.
constexpr uint32_t kNoCpu = 65000;

std::vector<uint32_t> AllowedCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return {};
  std::vector<uint32_t> cpus;
  for (uint32_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

class ShimBinding : public ::testing::Test {
 protected:
  internal::ShimRank& AddReporter() {
    return shim_.AddRank({"/bin/grep", "Cpus_allowed_list", "/proc/self/status"});
  }
  std::string LogOf(uint32_t rank) { return shim_.Log(rank).stdout_bytes; }
  // What the shim complained of.
  std::string Complaints() {
    std::ifstream file(shim_.directory() + "/shim.log");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  AttemptFolder folder_;
  ShimClient shim_{folder_.path(), "a", folder_.path() + "/leases"};
};

TEST_F(ShimBinding, EveryRankRunsOnItsProcessors) {
  const std::vector<uint32_t> cpus = AllowedCpus();
  if (cpus.size() < 2) GTEST_SKIP() << "this machine has a single processor";
  AddReporter().add_cpus(cpus.front());
  AddReporter().add_cpus(cpus.back());
  internal::ShimRank& both = AddReporter();
  both.add_cpus(cpus.front());
  both.add_cpus(cpus.back());
  AddReporter();
  ASSERT_TRUE(shim_.RunToEnd());
  EXPECT_THAT(LogOf(0), HasSubstr("\t" + std::to_string(cpus.front()) + "\n"));
  EXPECT_THAT(LogOf(1), HasSubstr("\t" + std::to_string(cpus.back()) + "\n"));
  EXPECT_THAT(LogOf(2), ContainsRegex("\t" + std::to_string(cpus.front()) + "[-,]" +
                                      std::to_string(cpus.back()) + "\n"));
  // The others' places are not its own.
  EXPECT_THAT(LogOf(3), Not(HasSubstr("\t" + std::to_string(cpus.front()) + "\n")));
}

TEST_F(ShimBinding, PrefersTheMemoryOfItsNode) {
  if (!std::filesystem::exists("/proc/self/numa_maps")) {
    GTEST_SKIP() << "this kernel does not know NUMA nodes";
  }
  // Node 0 is everywhere.
  internal::ShimRank& near = shim_.AddRank({"/bin/cat", "/proc/self/numa_maps"});
  near.set_has_memory_node(true);
  near.set_memory_node(0);
  shim_.AddRank({"/bin/cat", "/proc/self/numa_maps"});
  ASSERT_TRUE(shim_.RunToEnd());
  const std::string complaints = Complaints();
  if (complaints.find("set_mempolicy") != std::string::npos) {
    GTEST_SKIP() << "not allowed here: " << complaints;
  }
  EXPECT_THAT(LogOf(0), HasSubstr("prefer"));
  EXPECT_THAT(LogOf(1), Not(HasSubstr("prefer")));
}

TEST_F(ShimBinding, ARankWhoseProcessorsAreGoneRunsUnbound) {
  internal::ShimRank& rank = AddReporter();
  rank.add_cpus(kNoCpu);
  rank.set_has_memory_node(true);
  rank.set_memory_node(1000);
  AddReporter();
  ASSERT_TRUE(shim_.RunToEnd());
  ASSERT_NE(shim_.WaitExited(0, 0), nullptr);
  EXPECT_EQ(shim_.WaitExited(0, 0)->kind(), internal::ShimRankExited::CODE);
  EXPECT_EQ(shim_.WaitExited(0, 0)->value(), 0);
  EXPECT_NE(shim_.WaitStarted(0, 0), nullptr);
  EXPECT_EQ(LogOf(0), LogOf(1));
  EXPECT_THAT(Complaints(),
              AllOf(HasSubstr("rank 0 runs without its processors: sched_setaffinity"),
                    HasSubstr("rank 0 runs without its memory node: set_mempolicy")));
}

}  // namespace
}  // namespace muster::testing
