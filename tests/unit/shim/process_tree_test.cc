#include "agent/shim/process_tree.h"

#include <gtest/gtest.h>

#include <vector>

#include "agent/shim/oom_watch.h"

namespace muster::shim {
namespace {

// Fields 7 to 22 of a line that matter to nobody, but for the last.
constexpr char kRest[] = " 0 -1 4194560 95 0 0 0 0 0 0 0 20 0 1 0 4711 2625536 200\n";

TEST(ParseStat, ReadsTheFieldsThatAreNeeded) {
  const auto process = ParseStat(std::string("12 (python3) S 7 12 9") + kRest);
  ASSERT_TRUE(process.has_value());
  EXPECT_EQ(process->pid, 12);
  EXPECT_EQ(process->command, "python3");
  EXPECT_EQ(process->state, 'S');
  EXPECT_EQ(process->parent, 7);
  EXPECT_EQ(process->session, 9);
  EXPECT_EQ(process->start_ticks, 4711u);
  EXPECT_FALSE(process->dead());
}

TEST(ParseStat, IsNotFooledByTheNameOfACommand) {
  const auto process = ParseStat(std::string("12 (a) Z 1 (b) Z 8 12 9") + kRest);
  ASSERT_TRUE(process.has_value());
  EXPECT_EQ(process->command, "a) Z 1 (b");
  EXPECT_TRUE(process->dead());
  EXPECT_EQ(process->parent, 8);
}

TEST(ParseStat, RefusesOtherText) {
  EXPECT_FALSE(ParseStat("").has_value());
  EXPECT_FALSE(ParseStat("12 (x) S 7").has_value());
  EXPECT_FALSE(ParseStat(") 12 (").has_value());
}

ProcessInfo Process(pid_t pid, pid_t parent, pid_t session) {
  ProcessInfo process;
  process.pid = pid;
  process.parent = parent;
  process.session = session;
  return process;
}

TEST(AttributeToRanks, FollowsParentsAndSessions) {
  constexpr pid_t kShim = 1'000'000'000;
  // Ranks 4 and 5 with pids 100 and 200; 200 has ended. Pids that no machine has.
  constexpr pid_t kBase = 1'100'000'000;
  const std::vector<ProcessInfo> descendants = {
      Process(kBase + 100, kShim, kBase + 100),        // rank 4
      Process(kBase + 101, kBase + 100, kBase + 100),  // its child
      Process(kBase + 102, kBase + 101, kBase + 102),  // grandchild in a session of its own
      Process(kBase + 201, kShim, kBase + 200),        // orphan of rank 5
      Process(kBase + 202, kBase + 201, kBase + 202),  // its child
      Process(kBase + 300, kShim, kBase + 300),        // an orphan that nothing tells apart
  };
  EXPECT_EQ(AttributeToRanks(descendants, kShim, {kBase + 100, kBase + 200}, {4, 5}),
            (std::vector<int>{0, 0, 0, 1, 1, -1}));
}

TEST(ParseOomKill, FindsThePidInLinesOfTheKernel) {
  EXPECT_EQ(ParseOomKill("3,1042,5000,-;Out of memory: Killed process 4711 (python3) total-vm:1kB"),
            4711);
  EXPECT_EQ(ParseOomKill("Memory cgroup out of memory: Killed process 12 (a b) total-vm:1kB"), 12);
  EXPECT_EQ(ParseOomKill("oom_reaper: reaped process 12 (x)"), 0);
  EXPECT_EQ(ParseOomKill("Out of memory: Killed process (x)"), 0);
}

}  // namespace
}  // namespace muster::shim
