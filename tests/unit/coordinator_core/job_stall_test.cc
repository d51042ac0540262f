// Stories of ranks that hang.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "tests/unit/coordinator_core/world.h"

namespace muster::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Stall : public ::testing::Test {
 protected:
  JobId Start(const std::string& action) {
    v1::JobSpec spec = world_.Spec({"node-1", "node-2"});
    spec.mutable_stall()->mutable_after()->set_seconds(120);
    spec.mutable_stall()->set_action(action);
    spec.mutable_restart()->set_max_attempts(2);
    spec.mutable_restart()->add_on("node-lost");
    return world_.SubmitAndStart(spec);
  }
  void EndOfAll() {
    for (const uint32_t rank : {0, 1, 2, 3}) world_.Killed(rank, SIGTERM);
    world_.StoppedAll();
  }

  World world_;
};

TEST_F(Stall, IsAWarningAndNoMore) {
  for (const char* action : {"", "dump"}) {
    World world;
    v1::JobSpec spec = world.Spec({"node-1", "node-2"});
    spec.mutable_stall()->mutable_after()->set_seconds(120);
    spec.mutable_stall()->set_action(action);
    const JobId job = world.SubmitAndStart(spec);
    const uint64_t before = world.Job(job).revision();
    world.Stalled(3, "pid 1003 (python3) in state S at futex_wait");
    world.Resumed(3);
    EXPECT_GT(world.Job(job).revision(), before) << "watchers are told";
    EXPECT_THAT(
        world.Job(job).warnings(),
        ElementsAre("rank 3 on node-2 (pid 1003) has written nothing and hardly used processor "
                    "time for 2m: pid 1003 (python3) in state S at futex_wait",
                    "rank 3 on node-2 (pid 1003) goes on after 3m"));
    EXPECT_EQ(world.Job(job).state(), v1::Job::RUNNING);
    for (const uint32_t rank : {0, 1, 2, 3}) world.Exited(rank, 0);
    world.StoppedAll();
    EXPECT_EQ(world.Job(job).state(), v1::Job::SUCCEEDED);
  }
}

TEST_F(Stall, EndsTheJobAlsoWhenItHasAsManyWarningsAsAJobMayHave) {
  const JobId job = Start("fail");
  for (int i = 0; i < 250; ++i) world_.Resumed(2);
  EXPECT_EQ(world_.Job(job).warnings_size(), 101);
  world_.Stalled(1, "");
  EXPECT_EQ(world_.Job(job).state(), v1::Job::STOPPING);
  EndOfAll();
  EXPECT_EQ(world_.Job(job).cause(), v1::Job::STALLED);
  EXPECT_EQ(world_.Job(job).exit_code(), 124);
}

TEST_F(Stall, EndsTheJobWhenThatIsWanted) {
  const JobId job = Start("fail");
  world_.Stalled(1, "");
  EXPECT_EQ(world_.Job(job).state(), v1::Job::STOPPING);
  EndOfAll();
  const v1::Job view = world_.Job(job);
  EXPECT_EQ(view.state(), v1::Job::FAILED);
  EXPECT_EQ(view.cause(), v1::Job::STALLED);
  EXPECT_EQ(view.exit_code(), 124);
  EXPECT_EQ(view.first_failure().rank(), 1u);
  EXPECT_EQ(
      view.reason(),
      "rank 1 on node-1 (pid 1001) has written nothing and hardly used processor time for 2m");
}

TEST_F(Stall, StartsTheJobAgainWhateverRestartsAreForOtherwise) {
  const JobId job = Start("restart");
  world_.Stalled(2, "");
  EndOfAll();
  EXPECT_EQ(world_.Job(job).attempt(), 2u);
  EXPECT_NE(world_.Job(job).state(), v1::Job::FAILED);
}

TEST_F(Stall, ThatComesAgainAndAgainLeavesRoomForOtherWarnings) {
  const JobId job = Start("dump");
  for (int i = 0; i < 300; ++i) {
    world_.Stalled(1, "");
    world_.Resumed(1);
  }
  EXPECT_EQ(world_.Job(job).warnings_size(), 101);
  EXPECT_THAT(*world_.Job(job).warnings().rbegin(), HasSubstr("more warnings"));
  world_.Lost(1, "gone");
  for (const uint32_t rank : {0, 2, 3}) world_.Killed(rank, SIGTERM);
  world_.StoppedAll();
  EXPECT_EQ(world_.Job(job).attempt(), 2u);
  EXPECT_THAT(*world_.Job(job).warnings().rbegin(), HasSubstr("attempt 1 of 2 failed"));
}

TEST_F(Stall, OfARankThatHasEndedMeansNothing) {
  const JobId job = Start("fail");
  world_.Exited(1, 0);
  world_.Stalled(1, "late");
  world_.Resumed(1);
  EXPECT_THAT(world_.Job(job).warnings(), IsEmpty());
  EXPECT_EQ(world_.Job(job).state(), v1::Job::RUNNING);
}

}  // namespace
}  // namespace muster::testing
