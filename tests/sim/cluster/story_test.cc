// Single stories of the simulated cluster, each about one promise.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sim/cluster/world.h"

namespace muster::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

RankScript Runs(Duration run, int exit_code = 0) {
  RankScript script;
  script.run = run;
  script.exit_code = exit_code;
  return script;
}

// A world whose clients ask for their jobs all the time.
class Story {
 public:
  explicit Story(uint64_t seed = 1, int nodes = 2) : world(seed, nodes) { Poll(); }

  ClientJob& Submit(
      std::vector<RankScript> scripts,
      const std::function<void(v1::JobSpec&)>& change = [](v1::JobSpec&) {}) {
    const std::string name = fmt::format("script-{}", world.jobs().size());
    const int slots = static_cast<int>(scripts.size() / world.nodes().size());
    world.book().Add(name, std::move(scripts));
    v1::JobSpec spec = world.Spec(name, static_cast<int>(world.nodes().size()), slots);
    change(spec);
    return world.Submit(std::move(spec));
  }
  bool End(ClientJob& job, Duration at_most) {
    return world.RunUntil([&] { return job.ended(); }, at_most);
  }
  bool Run(ClientJob& job) {
    return world.RunUntil([&] { return job.view.state() == v1::Job::RUNNING; }, seconds(20));
  }
  std::string Verdict() { return world.truth().violation().value_or("all is well"); }
  void ExpectLogsComplete(const ClientJob& job) {
    for (const v1::JobRank& rank : job.view.ranks()) {
      const AttemptId id{job.id, job.view.attempt()};
      EXPECT_EQ(world.coordinator_disk().logs.at({id, rank.rank()}),
                world.truth().Rank(id, rank.rank()).log);
    }
  }

  World world;

 private:
  void Poll() {
    world.queue().Add(milliseconds(100), [this] {
      for (const auto& job : world.jobs()) world.Refresh(*job);
      Poll();
    });
  }
};

TEST(ClusterStory, AJobRunsToItsEndAndNothingIsLeft) {
  Story story;
  ClientJob& job =
      story.Submit({Runs(seconds(1)), Runs(seconds(2)), Runs(seconds(3)), Runs(seconds(1))});
  ASSERT_TRUE(story.End(job, seconds(20))) << story.Verdict();
  EXPECT_EQ(job.view.state(), v1::Job::SUCCEEDED);
  EXPECT_EQ(job.view.exit_code(), 0);
  EXPECT_TRUE(story.world.RunUntil([&] { return story.world.Quiet(); }, seconds(20)))
      << story.world.Leftovers();
  story.ExpectLogsComplete(job);
}

TEST(ClusterStory, TheFirstFailureDecidesAndTheOthersAreStopped) {
  Story story;
  ClientJob& job = story.Submit(
      {Runs(Duration(-1)), Runs(Duration(-1)), Runs(seconds(2), 7), Runs(Duration(-1))});
  ASSERT_TRUE(story.End(job, seconds(20))) << story.Verdict();
  EXPECT_EQ(job.view.state(), v1::Job::FAILED);
  EXPECT_EQ(job.view.exit_code(), 7);
  EXPECT_EQ(job.view.first_failure().rank(), 2u);
  EXPECT_EQ(story.world.truth().Running(), 0);
}

TEST(ClusterStory, AnAgentThatDiesAtAnyWriteLosesNothing) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    for (int write = 1; write < 30; ++write) {
      Story story(seed * 1000 + static_cast<uint64_t>(write));
      story.world.CrashAgentAtWrite(story.world.node(write % 2), write);
      ClientJob& job =
          story.Submit({Runs(seconds(2)), Runs(seconds(4)), Runs(seconds(3)), Runs(seconds(1))},
                       [](v1::JobSpec& spec) { spec.mutable_start_timeout()->set_seconds(120); });
      ASSERT_TRUE(story.End(job, seconds(60))) << write << " " << story.Verdict();
      EXPECT_EQ(story.Verdict(), "all is well") << write;
      // Away for longer than its lease it is lost; else nobody notices.
      if (job.view.state() != v1::Job::SUCCEEDED) {
        EXPECT_EQ(job.view.cause(), v1::Job::NODE_LOST) << write << job.view.ShortDebugString();
        continue;
      }
      EXPECT_TRUE(story.world.RunUntil([&] { return story.world.Quiet(); }, seconds(60)))
          << write << story.world.Leftovers();
      story.ExpectLogsComplete(job);
    }
  }
}

TEST(ClusterStory, ACoordinatorThatDiesAtAnyWriteLosesNothing) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    for (int write = 1; write < 30; ++write) {
      Story story(seed * 1000 + static_cast<uint64_t>(write));
      story.world.CrashCoordinatorAtWrite(write);
      ClientJob& job =
          story.Submit({Runs(seconds(2)), Runs(seconds(4)), Runs(seconds(3), 5), Runs(seconds(1))});
      ASSERT_TRUE(story.End(job, seconds(60))) << write << " " << story.Verdict();
      EXPECT_EQ(story.Verdict(), "all is well") << write;
      EXPECT_EQ(job.view.state(), v1::Job::FAILED) << write;
      EXPECT_EQ(job.view.exit_code(), 5) << write;
      EXPECT_TRUE(story.world.RunUntil([&] { return story.world.Quiet(); }, seconds(60)))
          << write << story.world.Leftovers();
      story.ExpectLogsComplete(job);
    }
  }
}

TEST(ClusterStory, RanksStopInTimeWhenTheirNodeIsCutOffInAnyDirection) {
  for (const auto& [up, down] : {std::pair(true, true), {true, false}, {false, true}}) {
    Story story;
    ClientJob& job = story.Submit({Runs(Duration(-1)), Runs(Duration(-1))}, [](v1::JobSpec& spec) {
      spec.mutable_on_coordinator_loss()->mutable_stop_after()->set_seconds(6);
    });
    ASSERT_TRUE(story.Run(job)) << story.Verdict();
    ASSERT_TRUE(story.world.RunFor(seconds(20))) << story.Verdict();
    EXPECT_EQ(story.world.truth().Running(), 2) << "a coordinator that is there renews the lease";
    story.world.CutLink(story.world.node(0), up, down);
    const AttemptId id{job.id, 1};
    const auto stopped = [&] { return !story.world.truth().Rank(id, 0).running; };
    EXPECT_TRUE(story.world.RunUntil(stopped, milliseconds(7500))) << up << down;
    EXPECT_EQ(story.world.truth().Rank(id, 0).end->signal, 15);
  }
}

TEST(ClusterStory, RanksKeepRunningWithoutACoordinatorWhenTheJobSaysSo) {
  Story story;
  ClientJob& job = story.Submit({Runs(seconds(90)), Runs(seconds(100))});
  ASSERT_TRUE(story.Run(job)) << story.Verdict();
  story.world.CrashCoordinator(seconds(60));
  ASSERT_TRUE(story.world.RunFor(seconds(55)));
  EXPECT_EQ(story.world.truth().Running(), 2);
  ASSERT_TRUE(story.End(job, seconds(90))) << story.Verdict();
  EXPECT_EQ(job.view.state(), v1::Job::SUCCEEDED);
  story.ExpectLogsComplete(job);
}

TEST(ClusterStory, NoNewAttemptStartsWhileALostNodeMayStillRunTheOld) {
  Story story;
  ClientJob& job = story.Submit({Runs(seconds(40)), Runs(seconds(40))}, [](v1::JobSpec& spec) {
    spec.mutable_restart()->set_max_attempts(3);
    spec.mutable_restart()->add_on("node-lost");
    spec.mutable_start_timeout()->set_seconds(300);
  });
  ASSERT_TRUE(story.Run(job)) << story.Verdict();
  story.world.CutLink(story.world.node(1), true, true);
  ASSERT_TRUE(story.world.RunFor(seconds(30)));
  EXPECT_EQ(job.view.attempt(), 1u);
  EXPECT_EQ(job.view.state(), v1::Job::PENDING) << job.view.reason();
  story.world.CutLink(story.world.node(1), false, false);
  ASSERT_TRUE(story.End(job, seconds(120))) << story.Verdict();
  EXPECT_EQ(job.view.state(), v1::Job::SUCCEEDED);
  EXPECT_EQ(job.view.attempt(), 2u);
}

TEST(ClusterStory, ADeadShimIsReportedAndNeverAStatusInvented) {
  Story story;
  ClientJob& job = story.Submit({Runs(seconds(30)), Runs(seconds(30))});
  ASSERT_TRUE(story.Run(job)) << story.Verdict();
  ASSERT_TRUE(story.world.RunFor(seconds(1)));
  story.world.node(0).host->CrashShim({job.id, 1});
  ASSERT_TRUE(story.End(job, seconds(10))) << story.Verdict();
  EXPECT_EQ(job.view.state(), v1::Job::FAILED);
  EXPECT_EQ(job.view.cause(), v1::Job::NODE_LOST);
  EXPECT_EQ(job.view.exit_code(), 121);
  EXPECT_EQ(job.view.ranks(0).state(), v1::JobRank::LOST);
  EXPECT_EQ(story.world.truth().Running(), 0);
}

TEST(ClusterStory, ARebootedNodeFailsTheJobOnceAndJoinsAgain) {
  Story story;
  ClientJob& job = story.Submit({Runs(seconds(60)), Runs(seconds(60))});
  ASSERT_TRUE(story.Run(job)) << story.Verdict();
  story.world.RebootNode(story.world.node(0), seconds(2), false);
  ASSERT_TRUE(story.End(job, seconds(20))) << story.Verdict();
  EXPECT_EQ(job.view.cause(), v1::Job::NODE_LOST);
  ASSERT_TRUE(story.world.RunUntil([&] { return story.world.Quiet(); }, seconds(30)))
      << story.world.Leftovers();
  ClientJob& next = story.Submit({Runs(seconds(1)), Runs(seconds(1))});
  ASSERT_TRUE(story.End(next, seconds(20))) << story.Verdict();
  EXPECT_EQ(next.view.state(), v1::Job::SUCCEEDED);
}

TEST(ClusterStory, ANodeWithoutItsJournalKillsWhatItFinds) {
  Story story;
  ClientJob& job = story.Submit({Runs(seconds(60)), Runs(seconds(60))});
  ASSERT_TRUE(story.Run(job)) << story.Verdict();
  story.world.LoseJournal(story.world.node(0), milliseconds(500));
  ASSERT_TRUE(story.End(job, seconds(20))) << story.Verdict();
  EXPECT_EQ(job.view.cause(), v1::Job::NODE_LOST);
  EXPECT_TRUE(
      story.world.RunUntil([&] { return story.world.truth().Running() == 0; }, seconds(10)));
  EXPECT_TRUE(story.world.RunUntil([&] { return story.world.Quiet(); }, seconds(30)))
      << story.world.Leftovers();
}

TEST(ClusterStory, LogConnectionsAreThereWhileThereIsOutputAndLoseNothing) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Story story(seed);
    ASSERT_TRUE(story.world.RunFor(seconds(100))) << story.Verdict();
    EXPECT_EQ(story.world.OpenLogStreams(), 0u) << "there is no job yet";
    RankScript seldom = Runs(seconds(1500));
    seldom.output_every = 3 * LogConnection::kIdle;
    ClientJob& job = story.Submit({seldom, seldom, seldom, seldom});
    ASSERT_TRUE(story.Run(job)) << story.Verdict();
    // How often they all ended and one was made again.
    int ended = 0;
    int made = 0;
    for (size_t before = 0; !job.ended();) {
      ASSERT_TRUE(story.world.RunFor(seconds(1))) << story.Verdict();
      const size_t now = story.world.OpenLogStreams();
      if (before > 0 && now == 0) ++ended;
      if (before == 0 && now > 0) ++made;
      before = now;
      // Sessions end, with the log connections that there are, at any point of their life.
      if (story.world.random().Chance(0.005)) {
        story.world.BreakStreams(story.world.node(0), true, story.world.random().Chance(0.5));
      }
    }
    EXPECT_EQ(job.view.state(), v1::Job::SUCCEEDED) << story.Verdict();
    EXPECT_GT(ended, 2) << seed;
    EXPECT_GT(made, 2) << seed;
    EXPECT_TRUE(story.world.RunUntil([&] { return story.world.Quiet(); }, seconds(20)))
        << story.world.Leftovers();
    story.ExpectLogsComplete(job);
    ASSERT_TRUE(story.world.RunFor(LogConnection::kIdle + seconds(5))) << story.Verdict();
    EXPECT_EQ(story.world.OpenLogStreams(), 0u);
  }
}

TEST(ClusterStory, RanksMeetAtTheAddressThatEveryNodeReaches) {
  Story story(1, 3);
  story.world.node(2).unreachable.insert("10.0.0.1");
  ClientJob& job = story.Submit({Runs(seconds(1)), Runs(seconds(1)), Runs(seconds(1))});
  ASSERT_TRUE(story.End(job, seconds(20))) << story.Verdict();
  EXPECT_EQ(job.view.state(), v1::Job::SUCCEEDED);
  EXPECT_EQ(job.view.rendezvous().address(), "10.1.0.1");
}

TEST(ClusterStory, NobodyStartsWhereNodesCannotMeet) {
  Story story(1, 3);
  story.world.node(1).unreachable = {"10.0.0.1", "10.1.0.1"};
  ClientJob& job = story.Submit({Runs(seconds(1)), Runs(seconds(1)), Runs(seconds(1))});
  ASSERT_TRUE(story.End(job, seconds(20))) << story.Verdict();
  EXPECT_EQ(job.view.cause(), v1::Job::PREPARE_FAILED);
  EXPECT_THAT(job.view.reason(), ::testing::HasSubstr("node-2: 10.0.0.1:29500 no answer"));
  for (const auto& [rank, truth] : story.world.truth().ranks()) EXPECT_EQ(truth.starts, 0);
}

TEST(ClusterStory, ProbesThatNeverEndDoNotKeepAJobWaiting) {
  Story story(1, 2);
  story.world.SetProbes(milliseconds(20), 1);
  ClientJob& job = story.Submit({Runs(seconds(1)), Runs(seconds(1))});
  ASSERT_TRUE(story.End(job, seconds(20))) << story.Verdict();
  EXPECT_EQ(job.view.cause(), v1::Job::PREPARE_FAILED);
  EXPECT_THAT(job.view.reason(), ::testing::HasSubstr("node-2 did not say within 8s"));
}

// Between any two writes of either side; an agent that starts anew probes anew.
TEST(ClusterStory, CrashesAtEveryWriteDoNotKeepAProbedJobFromItsEnd) {
  for (int write = 1; write <= 16; ++write) {
    for (const int who : {0, 1, 2}) {
      SCOPED_TRACE(fmt::format("write {} of {}", write, who));
      Story story(static_cast<uint64_t>(write), 2);
      story.world.node(1).unreachable.insert("10.0.0.1");
      ASSERT_TRUE(story.world.RunFor(seconds(1)));
      if (who == 2) {
        story.world.CrashCoordinatorAtWrite(write);
      } else {
        story.world.CrashAgentAtWrite(story.world.node(static_cast<size_t>(who)), write);
      }
      ClientJob& job = story.Submit({Runs(seconds(1)), Runs(seconds(1))});
      ASSERT_TRUE(story.End(job, seconds(60))) << story.Verdict();
      // It may have been away for longer than a lease.
      if (job.view.cause() == v1::Job::NODE_LOST) continue;
      EXPECT_EQ(job.view.state(), v1::Job::SUCCEEDED) << job.view.reason();
      EXPECT_EQ(job.view.rendezvous().address(), "10.1.0.1");
    }
  }
}

}  // namespace
}  // namespace muster::testing
