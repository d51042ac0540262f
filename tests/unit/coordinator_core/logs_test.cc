// Stories of output: how much there will be, and when a node may forget it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "coordinator/core/job_policy.h"
#include "tests/unit/coordinator_core/world.h"

namespace muster::testing {
namespace {

using std::chrono::seconds;
using v1::Assignment;

TEST(Logs, ANodeIsReleasedOnceItsOutputIsStored) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1", "node-2"}));
  const AttemptId attempt{job, 1};
  for (uint32_t rank : {0, 1, 2, 3}) world.LogClosed(rank, 100);
  world.core().OnLogCommitted(attempt, Rank{0}, 100);
  world.FinishAll();
  EXPECT_EQ(world.Job(job).state(), v1::Job::SUCCEEDED);
  EXPECT_EQ(world.Agent("node-1").Desired(job), Assignment::RUNNING);
  world.core().OnLogCommitted(attempt, Rank{1}, 99);
  EXPECT_NE(world.Agent("node-1").Find(job), nullptr);
  EXPECT_FALSE(world.core().LogsComplete(attempt, {}));
  world.core().OnLogCommitted(attempt, Rank{1}, 100);
  EXPECT_EQ(world.Agent("node-1").Find(job), nullptr) << "released";
  EXPECT_NE(world.Agent("node-2").Find(job), nullptr);
  EXPECT_TRUE(world.core().LogsComplete(attempt, {Rank{0}, Rank{1}}));
  world.core().OnLogCommitted(attempt, Rank{2}, 100);
  world.core().OnLogCommitted(attempt, Rank{3}, 100);
  EXPECT_EQ(world.Agent("node-2").Find(job), nullptr);
  EXPECT_TRUE(world.core().LogsComplete(attempt, {}));
}

TEST(Logs, ANodeThatIsAwayIsReleasedWhenItIsBack) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1"}, 1));
  world.LogClosed(0, 100);
  world.FinishAll();
  world.Disconnect("node-1");
  world.Connect("node-1");
  EXPECT_NE(world.Agent("node-1").Find(job), nullptr) << "it must keep what is not stored";
  world.Disconnect("node-1");
  world.core().OnLogCommitted({job, 1}, Rank{0}, 100);
  world.Connect("node-1");
  EXPECT_EQ(world.Agent("node-1").Find(job), nullptr);
}

TEST(Logs, ARestartedCoordinatorReleasesWhenItLearnsTheSizes) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1"}, 1));
  world.LogClosed(0, 100);
  world.FinishAll();
  world.Restart();
  world.Connect("node-1");
  EXPECT_NE(world.Agent("node-1").Find(job), nullptr);
  world.core().OnLogCommitted({job, 1}, Rank{0}, 100);
  EXPECT_EQ(world.Agent("node-1").Find(job), nullptr);
}

TEST(Logs, ARestartedCoordinatorTakesNoReleaseBack) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1"}, 1));
  world.LogClosed(0, 100);
  world.core().OnLogCommitted({job, 1}, Rank{0}, 100);
  v1::Assignment released = *world.Agent("node-1").Find(job);
  world.FinishAll();
  ASSERT_EQ(world.Agent("node-1").Find(job), nullptr);
  world.Restart();
  // The agent has been told, and says hello before it has forgotten: its files may be gone by the
  // time of the answer, and nobody would tell their sizes again.
  released.set_generation(kReleasedGeneration);
  released.set_desired(Assignment::RELEASED);
  world.Agent("node-1").assignments[{job, 1}] = released;
  world.Connect("node-1");
  for (const auto& message : world.Agent("node-1").inbox) {
    for (const v1::Assignment& assignment : message.snapshot().assignments()) {
      EXPECT_EQ(assignment.desired(), Assignment::RELEASED);
    }
  }
  EXPECT_EQ(world.Agent("node-1").Find(job), nullptr);
}

TEST(Logs, AnUnreleasedAttemptIsNotForgottenByASnapshot) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1", "node-2"}, 1));
  world.LogClosed(0, 100);
  world.Exited(0, 0);
  world.Stopped("node-1");
  world.Disconnect("node-1");
  world.Connect("node-1");
  EXPECT_NE(world.Agent("node-1").Find(job), nullptr);
  EXPECT_EQ(world.Job(job).state(), v1::Job::RUNNING);
}

TEST(Logs, OutputThatIsGoneWithItsJournalKeepsNoAttempt) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1", "node-2"}, 1));
  world.LogClosed(0, 100);
  FakeAgent& agent = world.Agent("node-1");
  world.Disconnect("node-1");
  agent.hello.set_journal_id("another");
  agent.journal.clear();
  agent.acked_seq = 0;
  agent.assignments.clear();
  world.Connect("node-1");
  ASSERT_EQ(agent.Desired(job), Assignment::STOPPED);
  world.Stopped("node-1");
  world.Stopped("node-2");
  EXPECT_EQ(world.Job(job).state(), v1::Job::FAILED);
  EXPECT_EQ(agent.Find(job), nullptr) << "released";
}

TEST(Logs, KnowsHowMuchThereWillBe) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1", "node-2"}, 1));
  const AttemptId attempt{job, 1};
  EXPECT_EQ(world.core().ExpectedLogSize(attempt, Rank{0}), std::nullopt);
  EXPECT_FALSE(world.core().LogState(attempt, Rank{0})->EndsAt(1000));
  world.LogClosed(0, 100);
  EXPECT_EQ(world.core().ExpectedLogSize(attempt, Rank{0}), 100u);
  EXPECT_FALSE(world.core().LogState(attempt, Rank{0})->EndsAt(99));
  EXPECT_TRUE(world.core().LogState(attempt, Rank{0})->EndsAt(100));
  EXPECT_EQ(world.core().LogState(attempt, Rank{7}), std::nullopt);
  EXPECT_EQ(world.core().LogState({job, 2}, Rank{0}), std::nullopt);
  EXPECT_EQ(world.core().ShapeOf(job)->attempts, 1u);
  EXPECT_EQ(world.core().ShapeOf(job)->ranks, 2u);
  EXPECT_FALSE(world.core().HasEnded(job));
}

TEST(Logs, AreGivenUpWhenTheirNodeIsLost) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1", "node-2"}, 1));
  const AttemptId attempt{job, 1};
  int told = 0;
  world.core().SetLogListener([&](const JobId&) { ++told; });
  world.LogClosed(0, 100);
  world.LogClosed(1, 100);
  world.FinishAll();
  EXPECT_TRUE(world.core().HasEnded(job));
  EXPECT_FALSE(world.core().LogState(attempt, Rank{1})->EndsAt(50));
  world.Disconnect("node-2");
  told = 0;
  world.Run(seconds(12));
  EXPECT_GT(told, 0);
  EXPECT_TRUE(world.core().LogState(attempt, Rank{1})->EndsAt(50));
  EXPECT_FALSE(world.core().LogState(attempt, Rank{0})->EndsAt(50));
  world.Connect("node-2");
  EXPECT_FALSE(world.core().LogState(attempt, Rank{1})->EndsAt(50))
      << "the rest may come after all";
}

TEST(Logs, ARankThatNeverWroteIsAtItsEnd) {
  World world;
  world.Join("node-1");
  const JobId job = world.Submit(world.Spec({"node-1"}));
  EXPECT_FALSE(world.core().LogState({job, 1}, Rank{0})->EndsAt(0));
  world.PrepareFailed("node-1", "x");
  EXPECT_TRUE(world.core().LogState({job, 1}, Rank{0})->EndsAt(0));
  EXPECT_TRUE(world.core().LogsComplete({job, 1}, {}));
}

TEST(Logs, OnlyTheNodeOfARankMayUploadIt) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1", "node-2"}, 1));
  EXPECT_TRUE(world.core().MayUpload(NodeId("node-1"), {job, 1}, Rank{0}));
  EXPECT_FALSE(world.core().MayUpload(NodeId("node-1"), {job, 1}, Rank{1}));
  EXPECT_FALSE(world.core().MayUpload(NodeId("node-1"), {job, 1}, Rank{9}));
  EXPECT_FALSE(world.core().MayUpload(NodeId("node-1"), {job, 2}, Rank{0}));
  EXPECT_FALSE(world.core().MayUpload(NodeId("node-1"), {JobId("x"), 1}, Rank{0}));
}

TEST(Logs, ANodeWithoutOutputIsReleasedAtTheEnd) {
  World world;
  world.JoinAll({"node-1", "node-2"});
  const JobId job = world.Submit(world.Spec({"node-1", "node-2"}));
  world.Prepared("node-1");
  world.PrepareFailed("node-2", "x");
  EXPECT_NE(world.Agent("node-2").Find(job), nullptr);
  world.Stopped("node-1");
  EXPECT_EQ(world.Agent("node-1").Find(job), nullptr);
  EXPECT_EQ(world.Agent("node-2").Find(job), nullptr);
}

}  // namespace
}  // namespace muster::testing
