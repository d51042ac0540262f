// A real muster-shim stops its ranks and everything they have started.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/process/shim/shim_client.h"

namespace muster::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class ShimStop : public ::testing::Test {
 protected:
  std::string File(const std::string& name) const { return folder_.path() + "/" + name; }
  bool Exists(const std::string& name) const { return std::filesystem::exists(File(name)); }
  void MakeFile(const std::string& name) { std::ofstream(File(name)).put('x'); }

  // Runs and waits until every rank has created `up.N`.
  bool RunUntilUp(int ranks) {
    if (!shim_.StartAndPrepare()) return false;
    shim_.Run();
    return Eventually([&] {
      for (int i = 0; i < ranks; ++i) {
        if (!Exists("up." + std::to_string(i))) return false;
      }
      return true;
    });
  }

  bool AllGone(const std::string& pid_file, size_t expected) const {
    const std::vector<pid_t> pids = ReadPids(File(pid_file));
    if (pids.size() != expected) return false;
    for (const pid_t pid : pids) {
      if (IsAlive(pid)) return false;
    }
    return true;
  }

  AttemptFolder folder_;
  ShimClient shim_{folder_.path(), "a", folder_.path() + "/leases"};
};

TEST_F(ShimStop, GivesRanksTheirGraceAndHelpersLiveUntilTheirRankIsDone) {
  shim_.AddProbe({"--exit-on-term", "5", "300", "--children", "1", File("pids"), "--touch",
                  File("up.0"), "--sleep-ms", "60000"});
  ASSERT_TRUE(RunUntilUp(1));
  const std::vector<pid_t> helpers = ReadPids(File("pids"));
  ASSERT_EQ(helpers.size(), 1u);
  shim_.Stop(10'000);
  // The helper would die of the signal, were it sent to more than the rank.
  EXPECT_FALSE(Eventually([&] { return !IsAlive(helpers[0]); }, 0.15));
  const auto* exited = shim_.WaitExited(0);
  ASSERT_NE(exited, nullptr);
  EXPECT_EQ(exited->kind(), internal::ShimRankExited::CODE);
  EXPECT_EQ(exited->value(), 5);
  const auto* stopped = shim_.WaitStopped(2);
  ASSERT_NE(stopped, nullptr) << "no waiting for a grace that nobody needs";
  EXPECT_EQ(stopped->killed_leftovers(), 1u);
  EXPECT_TRUE(AllGone("pids", 1));
}

TEST_F(ShimStop, KillsDeafRanksAndTheirDescendantsAfterTheGrace) {
  for (const char* number : {"0", "1"}) {
    shim_.AddProbe({"--ignore-term", "--deaf-children", "2", File("pids"), "--daemons", "2",
                    File("pids"), "--sessions", "1", File("pids"), "--touch",
                    File(std::string("up.") + number), "--sleep-ms", "60000"});
  }
  ASSERT_TRUE(RunUntilUp(2));
  const auto start = Clock::now();
  shim_.Stop(500);
  const auto* stopped = shim_.WaitStopped(10);
  ASSERT_NE(stopped, nullptr);
  EXPECT_GE(SecondsSince(start), 0.5);
  EXPECT_LT(SecondsSince(start), 5);
  for (uint32_t rank : {0u, 1u}) {
    ASSERT_NE(shim_.WaitExited(rank, 0), nullptr);
    EXPECT_EQ(shim_.WaitExited(rank, 0)->kind(), internal::ShimRankExited::SIGNAL);
    EXPECT_EQ(shim_.WaitExited(rank, 0)->value(), SIGKILL);
  }
  EXPECT_TRUE(AllGone("pids", 10));
  EXPECT_EQ(stopped->killed_leftovers(), 10u);
  EXPECT_EQ(stopped->unkillable_size(), 0);
}

TEST_F(ShimStop, AShorterGraceReplacesALongerAndNotTheOtherWayRound) {
  shim_.AddProbe({"--ignore-term", "--touch", File("up.0"), "--sleep-ms", "60000"});
  ASSERT_TRUE(RunUntilUp(1));
  const auto start = Clock::now();
  shim_.Stop(60'000);
  shim_.Stop(300);
  shim_.Stop(60'000);
  ASSERT_NE(shim_.WaitStopped(10), nullptr);
  EXPECT_GE(SecondsSince(start), 0.3);
  EXPECT_LT(SecondsSince(start), 5);
}

TEST_F(ShimStop, NoGraceKillsAtOnce) {
  shim_.AddProbe({"--exit-on-term", "5", "0", "--touch", File("up.0"), "--sleep-ms", "60000"});
  ASSERT_TRUE(RunUntilUp(1));
  shim_.Stop(0);
  const auto* exited = shim_.WaitExited(0, 5);
  ASSERT_NE(exited, nullptr);
  EXPECT_EQ(exited->kind(), internal::ShimRankExited::SIGNAL);
}

TEST_F(ShimStop, AStoppedRankHearsTheSignal) {
  shim_.AddProbe({"--exit-on-term", "6", "0", "--touch", File("up.0"), "--stop"});
  ASSERT_TRUE(RunUntilUp(1));
  shim_.Stop(10'000);
  const auto* exited = shim_.WaitExited(0, 5);
  ASSERT_NE(exited, nullptr);
  EXPECT_EQ(exited->value(), 6);
}

TEST_F(ShimStop, BeforeRunReleasesEverything) {
  shim_.AddProbe({"--touch", File("up.0")});
  ASSERT_TRUE(shim_.StartAndPrepare());
  shim_.Stop(1000);
  ASSERT_NE(shim_.WaitStopped(5), nullptr);
  shim_.Run();
  // Prepared by another, while the first is still there: the slot is free.
  ShimClient other(folder_.path(), "b", folder_.path() + "/leases");
  other.AddProbe({});
  EXPECT_TRUE(other.StartAndPrepare()) << other.Problems();
  shim_.Quit();
  EXPECT_EQ(shim_.WaitExit(), 0);
  EXPECT_FALSE(Exists("up.0"));
}

TEST_F(ShimStop, RightAfterRunLeavesNothing) {
  for (int i = 0; i < 16; ++i) shim_.AddProbe({"--sleep-ms", "60000"});
  ASSERT_TRUE(shim_.StartAndPrepare());
  shim_.Run();
  shim_.Stop(5000);
  ASSERT_NE(shim_.WaitStopped(10), nullptr);
  for (uint32_t rank = 0; rank < 16; ++rank) {
    EXPECT_NE(shim_.WaitExited(rank, 0), nullptr);
    EXPECT_NE(shim_.WaitLogClosed(rank, 0), nullptr);
  }
}

TEST_F(ShimStop, DaemonsOfRanksThatEndedByThemselvesAreKilled) {
  shim_.AddProbe(
      {"--daemons", "3", File("pids"), "--bare-daemons", "1", File("pids"), "--exit", "0"});
  ASSERT_TRUE(shim_.StartAndPrepare());
  shim_.Run();
  const auto* stopped = shim_.WaitStopped(5);
  ASSERT_NE(stopped, nullptr);
  EXPECT_EQ(shim_.WaitExited(0, 0)->value(), 0);
  EXPECT_EQ(stopped->killed_leftovers(), 4u);
  EXPECT_TRUE(AllGone("pids", 4));
}

TEST_F(ShimStop, DaemonsOfAnEndedRankLiveWhileOthersRunAndDieWithTheStop) {
  shim_.AddProbe({"--daemons", "1", File("pids"), "--exit", "0"});
  shim_.AddProbe({"--ignore-term", "--touch", File("up.0"), "--sleep-ms", "60000"});
  ASSERT_TRUE(RunUntilUp(1));
  ASSERT_NE(shim_.WaitExited(0), nullptr);
  EXPECT_FALSE(AllGone("pids", 1));
  shim_.Stop(60'000);
  EXPECT_TRUE(Eventually([&] { return AllGone("pids", 1); }, 5))
      << "its rank is done, so it goes at once";
  EXPECT_EQ(shim_.WaitExited(1, 0), nullptr);
  shim_.Stop(0);
  EXPECT_NE(shim_.WaitStopped(5), nullptr);
}

TEST_F(ShimStop, HelpersThatEndByThemselvesAreNotKilled) {
  shim_.AddProbe({"--brief-daemon", "50", File("pids"), "--exit", "0"});
  ASSERT_TRUE(shim_.StartAndPrepare());
  shim_.Run();
  const auto* stopped = shim_.WaitStopped(5);
  ASSERT_NE(stopped, nullptr);
  EXPECT_EQ(stopped->killed_leftovers(), 0u);
}

TEST_F(ShimStop, AForkBombLoses) {
  // Bounded: 300 processes in all. They go on forking while they are killed.
  shim_.AddProbe({"--touch", File("up.0"), "--fork-bomb", "300"});
  ASSERT_TRUE(RunUntilUp(1));
  const auto start = Clock::now();
  shim_.Stop(50);
  const auto* stopped = shim_.WaitStopped(15);
  ASSERT_NE(stopped, nullptr);
  EXPECT_EQ(stopped->unkillable_size(), 0);
  EXPECT_GT(stopped->killed_leftovers(), 0u);
  EXPECT_LT(SecondsSince(start), 10);
}

TEST_F(ShimStop, OutputHeldOpenByADaemonDoesNotDelayTheExit) {
  shim_.AddProbe({"--print", "last words", "--daemons", "1", File("pids"), "--exit", "3"});
  shim_.AddProbe({"--touch", File("up.0"), "--wait-file", File("go")});
  ASSERT_TRUE(RunUntilUp(1));
  const auto* exited = shim_.WaitExited(0, 5);
  ASSERT_NE(exited, nullptr);
  EXPECT_EQ(exited->value(), 3);
  EXPECT_EQ(shim_.WaitLogClosed(0, 0), nullptr) << "the daemon may still write";
  const std::vector<pid_t> daemons = ReadPids(File("pids"));
  ASSERT_EQ(daemons.size(), 1u);
  ASSERT_EQ(::kill(daemons[0], SIGKILL), 0);
  EXPECT_NE(shim_.WaitLogClosed(0, 5), nullptr);
  MakeFile("go");
  ASSERT_NE(shim_.WaitStopped(5), nullptr);
  EXPECT_EQ(shim_.Log(0).stdout_bytes, "last words\n");
}

TEST_F(ShimStop, OutputHeldOpenByAStrangerEndsAfterTwoSeconds) {
  shim_.AddProbe({"--print", "x", "--wait-file", File("taken"), "--exit", "0"});
  shim_.AddProbe({"--touch", File("up.0"), "--wait-file", File("go")});
  ASSERT_TRUE(RunUntilUp(1));
  // This process takes the rank's pipe, and is no descendant of it.
  const auto* started = shim_.WaitStarted(0);
  ASSERT_NE(started, nullptr);
  std::ofstream stolen("/proc/" + std::to_string(started->pid()) + "/fd/1");
  ASSERT_TRUE(stolen.is_open());
  MakeFile("taken");
  ASSERT_NE(shim_.WaitExited(0), nullptr);
  const auto start = Clock::now();
  EXPECT_NE(shim_.WaitLogClosed(0, 8), nullptr);
  EXPECT_GE(SecondsSince(start), 1.5);
  MakeFile("go");
  ASSERT_NE(shim_.WaitStopped(5), nullptr);
}

TEST_F(ShimStop, TheLeaseEndsTheRanksByItself) {
  shim_.bootstrap.set_lease_ms(400);
  shim_.bootstrap.set_grace_ms(60'000);
  shim_.AddProbe({"--exit-on-term", "0", "0", "--touch", File("up.0"), "--sleep-ms", "60000"});
  ASSERT_TRUE(RunUntilUp(1));
  const auto start = Clock::now();
  for (int i = 0; i < 4; ++i) {
    shim_.Renew(400);
    EXPECT_EQ(shim_.WaitStopped(0.2), nullptr) << "a renewed lease holds";
  }
  ASSERT_NE(shim_.WaitStopped(5), nullptr);
  EXPECT_GE(SecondsSince(start), 0.9);
  const auto* told = shim_.WaitFor([](const auto& r) { return r.has_self_stop(); }, 0);
  ASSERT_NE(told, nullptr);
  EXPECT_THAT(told->self_stop().reason(), HasSubstr("lease"));
}

TEST_F(ShimStop, AShimThatIsDoneEndsWithItsLeaseWhenItsAgentIsGone) {
  shim_.bootstrap.set_lease_ms(300);
  shim_.AddProbe({"--exit", "3"});
  ASSERT_TRUE(shim_.StartAndPrepare());
  shim_.Run();
  ASSERT_NE(shim_.WaitStopped(5), nullptr);
  shim_.Disconnect();
  EXPECT_EQ(shim_.WaitExit(), 0) << "nobody will ask for its records by socket";
}

TEST_F(ShimStop, AStopWithAReasonIsItsOwn) {
  shim_.AddProbe({"--exit-on-term", "0", "0", "--touch", File("up.0"), "--sleep-ms", "60000"});
  ASSERT_TRUE(RunUntilUp(1));
  shim_.Stop(5000, "the agent leaves");
  // Repeated by an agent that is in a hurry, or that comes back.
  shim_.Stop(1000, "the agent leaves");
  ASSERT_NE(shim_.WaitStopped(5), nullptr);
  std::vector<std::string> seen;
  for (const auto& record : shim_.records()) {
    if (record.has_self_stop()) seen.push_back(record.self_stop().reason());
    if (record.has_rank_exited()) seen.emplace_back("exited");
  }
  EXPECT_THAT(seen, ElementsAre("the agent leaves", "exited"));
}

TEST_F(ShimStop, AStopThatWasOrderedBeforeStaysThat) {
  shim_.AddProbe({"--exit-on-term", "300", "0", "--touch", File("up.0"), "--sleep-ms", "60000"});
  ASSERT_TRUE(RunUntilUp(1));
  shim_.Stop(5000);
  shim_.Stop(5000, "the agent leaves");
  ASSERT_NE(shim_.WaitStopped(5), nullptr);
  EXPECT_EQ(shim_.WaitFor([](const auto& r) { return r.has_self_stop(); }, 0), nullptr);
}

TEST_F(ShimStop, ALeaseOfZeroNeverEnds) {
  shim_.bootstrap.set_lease_ms(300);
  shim_.AddProbe({"--touch", File("up.0"), "--wait-file", File("go")});
  ASSERT_TRUE(RunUntilUp(1));
  shim_.Renew(0);
  EXPECT_EQ(shim_.WaitStopped(0.6), nullptr);
  MakeFile("go");
  EXPECT_NE(shim_.WaitStopped(5), nullptr);
}

TEST_F(ShimStop, TheLeaseEndsAPreparedAttemptToo) {
  shim_.bootstrap.set_lease_ms(200);
  shim_.AddProbe({});
  ASSERT_TRUE(shim_.StartAndPrepare());
  EXPECT_NE(shim_.WaitStopped(5), nullptr);
}

TEST_F(ShimStop, SigtermToTheShimStopsItsRanks) {
  shim_.AddProbe({"--exit-on-term", "9", "0", "--touch", File("up.0"), "--sleep-ms", "60000"});
  ASSERT_TRUE(RunUntilUp(1));
  for (const int ignored : {SIGHUP, SIGINT, SIGUSR1, SIGPIPE}) ::kill(shim_.pid(), ignored);
  ::kill(shim_.pid(), SIGTERM);
  const auto* exited = shim_.WaitExited(0, 5);
  ASSERT_NE(exited, nullptr);
  EXPECT_EQ(exited->value(), 9);
  ASSERT_NE(shim_.WaitStopped(5), nullptr);
  shim_.Quit();
  EXPECT_EQ(shim_.WaitExit(), 0);
}

TEST_F(ShimStop, AStuckRankIsNamedAndKeepsItsSlot) {
  shim_.bootstrap.set_fake_unkillable_rank(1);
  shim_.bootstrap.set_has_fake_unkillable_rank(true);
  for (const char* number : {"0", "1"}) {
    shim_.AddProbe({"--touch", File(std::string("up.") + number), "--sleep-ms", "60000"});
  }
  ASSERT_TRUE(RunUntilUp(2));
  const auto start = Clock::now();
  shim_.Stop(100);
  const auto* stopped = shim_.WaitStopped(15);
  ASSERT_NE(stopped, nullptr) << "the end must not wait for ever";
  EXPECT_GE(SecondsSince(start), 9);
  ASSERT_EQ(stopped->unkillable_size(), 1);
  EXPECT_THAT(stopped->unkillable(0), HasSubstr("rank 1: pid "));
  EXPECT_EQ(shim_.WaitExited(1, 0), nullptr);
  shim_.Quit();

  ShimClient same(folder_.path(), "b", folder_.path() + "/leases");
  same.AddProbe({}).set_slot(1);
  same.bootstrap.set_slots(0, 1);
  EXPECT_FALSE(same.StartAndPrepare());
  EXPECT_THAT(same.Problems(), HasSubstr("slot 1 of node-1 is in use by tester, job a"));
  ShimClient free(folder_.path(), "c", folder_.path() + "/leases");
  free.AddProbe({});
  EXPECT_TRUE(free.StartAndPrepare()) << free.Problems();
  ::kill(shim_.pid(), SIGTERM);
  EXPECT_EQ(shim_.WaitExit(), 0);
}

}  // namespace
}  // namespace muster::testing
