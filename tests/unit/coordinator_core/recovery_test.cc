// Stories of a coordinator that dies, and of a store that cannot write.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "tests/unit/coordinator_core/world.h"

namespace muster::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using v1::Assignment;

TEST(Recovery, RunningJobsGoOn) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1", "node-2"}));
  const v1::Job before = world.Job(job);
  world.Restart();
  EXPECT_EQ(world.core().epoch(), 2u);
  v1::Job after = world.Job(job);
  EXPECT_EQ(after.state(), v1::Job::RUNNING);
  EXPECT_EQ(after.ranks(3).pid(), before.ranks(3).pid());
  EXPECT_EQ(after.rendezvous().address(), before.rendezvous().address());
  EXPECT_TRUE(after.nodes(0).suspect()) << "nobody was heard yet";
  world.Connect("node-1");
  world.Connect("node-2");
  EXPECT_EQ(world.Agent("node-1").welcome->coordinator_epoch(), 2u);
  EXPECT_EQ(world.Agent("node-1").Desired(job), Assignment::RUNNING);
  EXPECT_EQ(world.Agent("node-1").Find(job)->generation(), 2u);
  world.FinishAll();
  EXPECT_EQ(world.Job(job).state(), v1::Job::SUCCEEDED);
}

TEST(Recovery, NodesHaveOneLeaseToReturn) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1", "node-2"}));
  world.Crash();
  world.Run(std::chrono::hours(1));
  world.Restart();
  world.Run(seconds(9));
  EXPECT_EQ(world.Job(job).state(), v1::Job::RUNNING);
  world.Connect("node-1");
  world.Run(seconds(2));
  EXPECT_EQ(world.Job(job).state(), v1::Job::STOPPING);
  EXPECT_THAT(world.Job(job).reason(), HasSubstr("node-2 is lost"));
}

TEST(Recovery, WhatHappenedMeanwhileArrives) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1"}));
  world.Crash();
  FakeAgent& agent = world.Agent("node-1");
  for (int rank : {0, 1}) {
    v1::Event event;
    event.set_seq(agent.journal.size() + 1);
    event.mutable_key()->set_job_id(job.value());
    event.mutable_key()->set_attempt(1);
    event.mutable_rank_exited()->set_rank(rank);
    event.mutable_rank_exited()->mutable_status()->set_exit_code(rank == 0 ? 7 : 0);
    agent.journal.push_back(event);
  }
  world.Restart();
  world.Connect("node-1");
  world.StoppedAll();
  EXPECT_EQ(world.Job(job).exit_code(), 7);
  EXPECT_EQ(agent.acked(), agent.journal.size());
}

TEST(Recovery, AJobThatPreparesIsPlannedTheSameWay) {
  World world;
  world.JoinAll({"node-1", "node-2"});
  const JobId job = world.Submit(world.Spec({"node-1", "node-2"}));
  const v1::LaunchSpec before = world.Agent("node-2").Find(job)->launch();
  world.Restart();
  world.Agent("node-2").assignments.clear();  // It never arrived.
  world.Connect("node-1");
  world.Connect("node-2");
  EXPECT_EQ(world.Agent("node-2").Find(job)->launch().SerializeAsString(),
            before.SerializeAsString());
  world.PreparedAll();
  EXPECT_EQ(world.Job(job).state(), v1::Job::RUNNING);
}

TEST(Recovery, AWaitingJobHasItsTimeoutFromBeforeButOneLeaseAtLeast) {
  World world;
  v1::JobSpec spec = world.Spec({"node-1"});
  spec.mutable_start_timeout()->set_seconds(60);
  const JobId job = world.Submit(spec);
  world.Run(seconds(30));
  world.Restart();
  world.Run(seconds(29));
  EXPECT_EQ(world.Job(job).state(), v1::Job::PENDING);
  world.Crash();
  world.Run(seconds(30));
  world.Restart();
  world.Run(seconds(9));
  EXPECT_EQ(world.Job(job).state(), v1::Job::PENDING) << "its node may be about to return";
  world.Run(seconds(2));
  EXPECT_EQ(world.Job(job).state(), v1::Job::FAILED);
}

TEST(Recovery, ATimeLimitCountsTheTimeWithoutCoordinator) {
  World world;
  v1::JobSpec spec = world.Spec({"node-1"});
  spec.mutable_time_limit()->set_seconds(60);
  const JobId job = world.SubmitAndStart(spec);
  world.Crash();
  world.Run(seconds(61));
  world.Restart();
  world.Connect("node-1");
  EXPECT_EQ(world.Agent("node-1").Desired(job), Assignment::STOPPED);
  world.StoppedAll();
  EXPECT_EQ(world.Job(job).exit_code(), 124);
}

TEST(Recovery, ARepeatedSubmitAfterACrashReturnsTheSameJob) {
  World world;
  const JobId job = world.Submit(world.Spec({"node-1"}), "request-1");
  world.Restart();
  EXPECT_EQ(world.Submit(world.Spec({"node-1"}), "request-1"), job);
  EXPECT_NE(world.Submit(world.Spec({"node-1"}), "request-2"), job);
}

TEST(Recovery, EndedJobsStayAsTheyWere) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1"}));
  world.Exited(0, 7);
  world.StoppedAll();
  v1::Job before = world.Job(job);
  world.Restart();
  v1::Job after = world.Job(job);
  EXPECT_GT(after.revision(), before.revision()) << "it never goes back";
  before.clear_revision();
  after.clear_revision();
  EXPECT_EQ(after.SerializeAsString(), before.SerializeAsString());
}

TEST(Recovery, ABatchThatNeverReachedTheDiskWasNeverActedOn) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1", "node-2"}));
  world.disk().latency = milliseconds(100);
  world.Exited(0, 7);
  world.Run(milliseconds(50));
  EXPECT_EQ(world.Agent("node-2").Desired(job), Assignment::RUNNING);
  EXPECT_EQ(world.Agent("node-1").acked(), 3u);
  world.Crash();
  world.disk().latency = {};
  world.Restart();
  EXPECT_EQ(world.Job(job).state(), v1::Job::RUNNING);
  world.Connect("node-1");
  EXPECT_EQ(world.Job(job).state(), v1::Job::STOPPING) << "it was told again";
}

TEST(Recovery, RefusesAStoreThatItCannotUnderstand) {
  SimQueue queue;
  SimExecutor executor(queue);
  Disk disk;
  disk.events.push_back({JobId("a"), 1, {}});
  DiskStore store(executor, disk);
  CoordinatorCore core({}, executor, store, [] { return uint64_t{1}; });
  EXPECT_EQ(core.Start().code(), absl::StatusCode::kDataLoss);
}

TEST(Recovery, FindsNodesLostThatRebootedWhileItWasAway) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1", "node-2"}));
  world.Crash();
  FakeAgent& agent = world.Agent("node-2");
  agent.hello.set_boot_id("another");
  agent.hello.set_journal_id("another");
  agent.journal.clear();
  agent.acked_seq = 0;
  agent.assignments.clear();
  world.Restart();
  world.Connect("node-1");
  world.Connect("node-2");
  EXPECT_EQ(world.Job(job).state(), v1::Job::RUNNING) << "the boot before may still come";
  world.Disconnect("node-2");
  world.Run(seconds(11));
  EXPECT_EQ(world.Job(job).state(), v1::Job::STOPPING);
  EXPECT_THAT(world.Job(job).reason(), HasSubstr("rebooted"));
}

TEST(StoreFailure, RefusesNewJobsAndGoesOnWhenItWorksAgain) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1", "node-2"}));
  world.disk().failure = absl::ResourceExhaustedError("disk full");
  world.Exited(0, 7);
  world.Run(seconds(1));
  EXPECT_EQ(world.Agent("node-2").Desired(job), Assignment::RUNNING)
      << "nothing stored, nothing done";
  EXPECT_EQ(world.Agent("node-1").acked(), 3u);
  const auto refused = world.TrySubmit(world.Spec({"node-1"}));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("disk full"));
  world.disk().failure = absl::OkStatus();
  world.Run(seconds(10));
  EXPECT_EQ(world.Agent("node-2").Desired(job), Assignment::STOPPED);
  EXPECT_EQ(world.Agent("node-1").acked(), 4u);
  world.StoppedAll();
  EXPECT_EQ(world.Job(job).exit_code(), 7);
  EXPECT_THAT(world.notes(), Contains(HasSubstr("store failed")));
  EXPECT_THAT(world.notes(), Contains(HasSubstr("store works again")));
}

TEST(StoreFailure, NobodyIsToldWhatIsNotStored) {
  World world;
  const auto get = [&](const JobId& job) {
    v1::GetJobRequest request;
    request.set_job_id(job.value());
    return world.Await<v1::Job>(
        [&](auto done) { world.core().GetJob(request, {"alice"}, std::move(done)); });
  };
  const auto list = [&] {
    return world.Await<v1::ListJobsResponse>(
        [&](auto done) { world.core().ListJobs({}, {"alice"}, std::move(done)); });
  };
  const JobId unchanged = world.SubmitAndStart(world.Spec({"node-1"}));
  const v1::JobSpec spec = world.Spec({"nosuch"});
  const JobId job = world.Submit(spec, "request-1");
  world.disk().failure = absl::ResourceExhaustedError("disk full");
  v1::CancelJobRequest cancel;
  cancel.set_job_id(job.value());
  world.core().CancelJob(cancel, {"alice"}, [](absl::StatusOr<v1::Job>) {});
  const auto repeated = world.TrySubmit(spec, "request-1");
  EXPECT_EQ(repeated.status().code(), absl::StatusCode::kResourceExhausted);
  const auto looked = get(job);
  EXPECT_EQ(looked.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(looked.status().message()), HasSubstr("disk full"));
  EXPECT_EQ(list().status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(get(unchanged)->state(), v1::Job::RUNNING) << "looking is still possible";
  world.Restart();
  EXPECT_EQ(world.Job(job).state(), v1::Job::PENDING);
  EXPECT_EQ(list()->jobs_size(), 2);
}

TEST(StoreFailure, AJobInTheFailedBatchIsRefusedAndLeavesNothing) {
  World world;
  world.Join("node-1");
  world.disk().failure = absl::ResourceExhaustedError("disk full");
  const auto refused = world.TrySubmit(world.Spec({"node-1"}), "request-1");
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  world.disk().failure = absl::OkStatus();
  world.Run(seconds(10));
  EXPECT_TRUE(world.Agent("node-1").assignments.empty());
  const auto accepted = world.TrySubmit(world.Spec({"node-1"}), "request-1");
  ASSERT_TRUE(accepted.ok()) << accepted.status();
  EXPECT_EQ(world.Agent("node-1").assignments.size(), 1u);
}

TEST(StoreFailure, LosesNoNodeThatOnlyWaitsForItsWelcome) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1"}));
  world.disk().failure = absl::ResourceExhaustedError("disk full");
  world.Disconnect("node-1");
  world.Connect("node-1");
  EXPECT_FALSE(world.Agent("node-1").welcome.has_value());
  world.Run(seconds(60));
  world.disk().failure = absl::OkStatus();
  world.Run(seconds(6));
  EXPECT_TRUE(world.Agent("node-1").welcome.has_value());
  EXPECT_EQ(world.Job(job).state(), v1::Job::RUNNING);
}

TEST(Retention, ForgetsTheOldestEndedJobs) {
  CoordinatorOptions options;
  options.max_ended_jobs = 3;
  World world(options);
  std::vector<JobId> forgotten;
  world.core().SetForgetListener([&](const JobId& job) { forgotten.push_back(job); });
  std::vector<JobId> jobs;
  for (int i = 0; i < 5; ++i) {
    jobs.push_back(world.Submit(world.Spec({"nosuch"}), "r" + std::to_string(i)));
    world.Cancel(jobs.back());
  }
  world.Submit(world.Spec({"nosuch"}));
  EXPECT_EQ(forgotten, (std::vector<JobId>{jobs[0], jobs[1]}));
  const auto list = world.Await<v1::ListJobsResponse>(
      [&](auto done) { world.core().ListJobs({}, {"alice"}, std::move(done)); });
  EXPECT_EQ(list->jobs_size(), 4);
  world.Restart();
  const auto again = world.Await<v1::ListJobsResponse>(
      [&](auto done) { world.core().ListJobs({}, {"alice"}, std::move(done)); });
  EXPECT_EQ(again->jobs_size(), 4);
}

TEST(Retention, NodesForgetWhatTheCoordinatorForgets) {
  CoordinatorOptions options;
  options.max_ended_jobs = 1;
  World world(options);
  const JobId job = world.SubmitAndStart(world.Spec({"node-1", "node-2"}));
  // Output that never comes, and a node that does not say that it is done.
  world.LogClosed(0, 100);
  world.Exited(0, 7);
  world.Stopped("node-1");
  world.Run(seconds(100));
  ASSERT_EQ(world.Job(job).state(), v1::Job::FAILED);
  ASSERT_NE(world.Agent("node-1").Find(job), nullptr);
  for (int i = 0; i < 2; ++i) world.Cancel(world.Submit(world.Spec({"nosuch"})));
  EXPECT_EQ(world.Agent("node-1").Find(job), nullptr) << "released";
  EXPECT_EQ(world.Agent("node-2").Find(job), nullptr) << "released";
}

TEST(Retention, CountsRanksToo) {
  CoordinatorOptions options;
  options.max_ended_ranks = 5;
  World world(options);
  std::vector<JobId> forgotten;
  world.core().SetForgetListener([&](const JobId& job) { forgotten.push_back(job); });
  std::vector<JobId> jobs;
  for (int i = 0; i < 4; ++i) {
    jobs.push_back(world.SubmitAndStart(world.Spec({"node-1"})));
    world.FinishAll();
  }
  world.Submit(world.Spec({"nosuch"}));
  EXPECT_EQ(forgotten, (std::vector<JobId>{jobs[0], jobs[1]}));
}

}  // namespace
}  // namespace muster::testing
