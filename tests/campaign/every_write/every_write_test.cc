// Coordinator and agents that are killed at a write: each of those that they do from their start
// on, before it, in the middle of it, and after it before anybody was told. Jobs run meanwhile; a
// request to submit is repeated until it is answered. No job is lost, none is started twice, none
// ends with a status or a log that is not its own.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <vector>

#include "tests/campaign/every_write/kill_point.h"
#include "tests/campaign/kills/campaign.h"

namespace muster {
namespace {

using testing::Campaign;
using testing::KillMoment;
using testing::KillPoint;
using testing::Seconds;

struct Kill {
  uint64_t write;
  KillMoment moment;
};

// All of the first `most` writes at every moment in long runs, else a sample of `sample`. In a
// random order: a program that dies young again and again leaves no work for one that dies late.
std::vector<Kill> Choose(uint64_t most, size_t sample, std::mt19937_64& random) {
  std::vector<Kill> kills;
  for (uint64_t write = 1; write <= most; ++write) {
    for (const KillMoment moment :
         {KillMoment::kBefore, KillMoment::kHalfway, KillMoment::kAfter}) {
      kills.push_back({write, moment});
    }
  }
  std::shuffle(kills.begin(), kills.end(), random);
  if (!Campaign::IsLong()) kills.resize(sample);
  return kills;
}

class EveryWrite : public ::testing::Test {
 protected:
  // Runs jobs until `run`, which is about to die at a write, is dead.
  void AwaitDeath(testing::CommandRun& run, const Kill& kill) {
    const bool died = testing::WaitUntil(
        [&] {
          if (campaign_.ok()) campaign_.Step();
          return run.ended() || !campaign_.ok();
        },
        Seconds(60));
    if (!campaign_.ok()) return;
    ASSERT_TRUE(died) << "write " << kill.write << " was not reached: " << point_.writes();
    ASSERT_EQ(run.Wait(), 128 + SIGKILL) << "write " << kill.write << "\n" << run.err();
  }
  void Finish() {
    campaign_.Finish();
    EXPECT_TRUE(campaign_.ok()) << campaign_.Report();
    EXPECT_GT(campaign_.jobs_checked(), 0u);
    RecordProperty("jobs", static_cast<int>(campaign_.jobs_checked()));
  }

  Campaign campaign_;
  KillPoint point_{campaign_.cluster().box()};
};

TEST_F(EveryWrite, OfTheCoordinatorMayBeItsLast) {
  for (const Kill& kill : Choose(300, 8, campaign_.random())) {
    point_.Arm(kill.write, kill.moment);
    campaign_.RestartTheCoordinator();
    point_.Disarm();
    AwaitDeath(campaign_.cluster().coordinator(), kill);
    if (HasFatalFailure() || !campaign_.ok()) break;
  }
  campaign_.RestartTheCoordinator();
  Finish();
}

TEST_F(EveryWrite, OfACoordinatorThatIsToldToEndMayBeItsLast) {
  for (const Kill& kill : Choose(12, 2, campaign_.random())) {
    point_.Arm(0, kill.moment);
    campaign_.RestartTheCoordinator();
    point_.Disarm();
    // Something to write when it ends.
    ASSERT_TRUE(testing::WaitUntil([&] {
      campaign_.Step();
      return point_.writes() >= 150 || !campaign_.ok();
    }));
    point_.DieSoon(kill.write, kill.moment);
    campaign_.cluster().coordinator().Send(SIGTERM);
    AwaitDeath(campaign_.cluster().coordinator(), kill);
    if (HasFatalFailure() || !campaign_.ok()) break;
  }
  campaign_.RestartTheCoordinator();
  Finish();
}

TEST_F(EveryWrite, OfAnAgentMayBeItsLast) {
  for (const Kill& kill : Choose(150, 8, campaign_.random())) {
    point_.Arm(kill.write, kill.moment);
    campaign_.RestartAgent(1);
    point_.Disarm();
    AwaitDeath(campaign_.cluster().agent_run(1), kill);
    if (HasFatalFailure() || !campaign_.ok()) break;
  }
  campaign_.RestartAgent(1);
  Finish();
}

}  // namespace
}  // namespace muster
