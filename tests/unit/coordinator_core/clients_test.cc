// Stories of clients: submit, plan, list, signal, watch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <set>

#include "tests/unit/coordinator_core/world.h"

namespace muster::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

TEST(Submit, GivesShortReadableUniqueIds) {
  World world;
  std::set<std::string> ids;
  for (int i = 0; i < 200; ++i) {
    const JobId job = world.Submit(world.Spec({"node-1"}));
    EXPECT_THAT(job.value(), MatchesRegex("[a-z][a-z0-9]+"));
    EXPECT_EQ(job.value().size(), 6u);
    EXPECT_TRUE(ids.insert(job.value()).second);
  }
}

TEST(Submit, IsIdempotentByRequestId) {
  World world;
  const JobId first = world.Submit(world.Spec({"node-1"}), "r1");
  EXPECT_EQ(world.Submit(world.Spec({"node-2"}), "r1"), first);
  EXPECT_NE(world.Submit(world.Spec({"node-2"}), "r2"), first);
}

TEST(Submit, RepeatedInOneTurnIsStillOneJob) {
  World world;
  std::vector<std::string> ids;
  for (int i = 0; i < 2; ++i) {
    v1::SubmitJobRequest request;
    request.set_request_id("r1");
    *request.mutable_spec() = world.Spec({"node-1"});
    world.core().SubmitJob(request, {"alice"},
                           [&](absl::StatusOr<v1::Job> job) { ids.push_back(job->job_id()); });
  }
  world.Settle();
  ASSERT_EQ(ids.size(), 2u);
  EXPECT_EQ(ids[0], ids[1]);
}

TEST(Submit, RefusesWhatThisVersionDoesNotSupportAndNamesAllOfIt) {
  World world;
  v1::JobSpec spec = world.Spec({"node-1"});
  spec.mutable_container()->set_image("x");
  spec.mutable_container()->add_options("--name=x");
  spec.mutable_stall()->set_action("restart");
  spec.add_log_policies()->set_match("x");
  spec.mutable_restart()->set_spares(1);
  spec.add_require_checks("memlok");
  spec.set_user("bob");
  const auto refused = world.TrySubmit(spec);
  ASSERT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  for (const char* name :
       {"container.options: the option '--name=x' is not for jobs",
        "stall.action restart: restart.max_attempts must be 2 or more", "log_policies",
        "restart.spares", "checks.require: there is no check \"memlok\"; there are ",
        "user: ranks of jobs that \"alice\" submits run as \"alice\""}) {
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr(name));
  }
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("not supported by this version"));
}

TEST(Submit, RefusesNonsense) {
  World world;
  const auto expect = [&](auto change, const char* word) {
    v1::JobSpec spec = world.Spec({"node-1"});
    change(spec);
    const auto refused = world.TrySubmit(spec);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument) << word;
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr(word));
  };
  expect([](v1::JobSpec& s) { s.clear_hosts(); }, "hosts");
  expect([](v1::JobSpec& s) { s.clear_program(); }, "script");
  expect([](v1::JobSpec& s) { s.set_working_directory("x"); }, "absolute");
  expect([](v1::JobSpec& s) { s.set_devices("cpu"); }, "devices");
  expect([](v1::JobSpec& s) { s.set_bind("socket"); }, "bind");
  expect([](v1::JobSpec& s) { s.set_bind_core_list("3-1"); }, "bind_core_list: expected");
  expect(
      [](v1::JobSpec& s) {
        s.set_bind("none");
        s.set_bind_core_list("0-3");
      },
      "contradicts bind: none");
  expect([](v1::JobSpec& s) { s.mutable_restart()->add_on("always"); }, "restart.on");
  expect([](v1::JobSpec& s) { s.mutable_start_timeout(); }, "start_timeout");
  expect([](v1::JobSpec& s) { s.mutable_grace()->set_seconds(-1); }, "grace");
  expect([](v1::JobSpec& s) { s.add_env()->set_name("A=B"); }, "A=B");
}

TEST(Submit, WarnsOfALeaseThatADelayEnds) {
  World world;
  v1::JobSpec spec = world.Spec({"node-1"});
  for (const auto& [after, warnings] : {std::pair(5, 1), std::pair(6, 0)}) {
    spec.mutable_on_coordinator_loss()->mutable_stop_after()->set_seconds(after);
    const auto job = world.TrySubmit(spec);
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(job->warnings_size(), warnings) << after;
  }
}

TEST(Submit, ABareHostCountsWhenItsNodeIsKnown) {
  World world;
  v1::JobSpec spec = world.Spec({"node-1"}, 0);
  spec.set_expected_world_size(3);
  const JobId job = world.Submit(spec);
  world.Join("node-1", 3);
  EXPECT_EQ(world.Job(job).world_size(), 3u);
}

TEST(Plan, UsesTheNodesThatAreThere) {
  World world;
  world.Join("node-1", 3);
  v1::PlanJobRequest request;
  *request.mutable_spec() = world.Spec({"node-1", "node-2"}, 0);
  const auto plan = world.Await<v1::Plan>(
      [&](auto done) { world.core().PlanJob(request, {"alice"}, std::move(done)); });
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->nodes(0).node_id(), "node-1");
  EXPECT_EQ(plan->nodes(0).launch().ranks_size(), 3);
  EXPECT_EQ(plan->nodes(1).node_id(), "");
  EXPECT_EQ(plan->world_size(), 11u);
  EXPECT_THAT(plan->warnings(0), HasSubstr("node-2"));
}

TEST(ListJobs, GivesTheNewestFirstInPages) {
  World world;
  std::vector<std::string> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(world.Submit(world.Spec({"node-1"})).value());
  std::vector<std::string> seen;
  std::string token;
  do {
    v1::ListJobsRequest request;
    request.set_page_size(2);
    request.set_page_token(token);
    const auto page = world.Await<v1::ListJobsResponse>(
        [&](auto done) { world.core().ListJobs(request, {"alice"}, std::move(done)); });
    ASSERT_TRUE(page.ok());
    for (const v1::Job& job : page->jobs()) seen.push_back(job.job_id());
    token = page->next_page_token();
  } while (!token.empty());
  std::reverse(ids.begin(), ids.end());
  EXPECT_EQ(seen, ids);
  v1::ListJobsRequest request;
  request.set_page_token("x");
  EXPECT_EQ(world
                .Await<v1::ListJobsResponse>(
                    [&](auto done) { world.core().ListJobs(request, {"alice"}, std::move(done)); })
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

absl::StatusOr<v1::SignalJobResponse> Signal(World& world, const JobId& job, int signal,
                                             std::vector<uint32_t> ranks = {}) {
  v1::SignalJobRequest request;
  request.set_job_id(job.value());
  request.set_signal(signal);
  request.mutable_ranks()->Add(ranks.begin(), ranks.end());
  return world.Await<v1::SignalJobResponse>(
      [&](auto done) { world.core().SignalJob(request, {"alice"}, std::move(done)); });
}

TEST(SignalJob, ReachesTheNodesOfTheRanks) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1", "node-2"}));
  EXPECT_EQ(Signal(world, job, SIGUSR1)->nodes(), 2u);
  EXPECT_EQ(world.Agent("node-1").signals.back().signal(), SIGUSR1);
  EXPECT_EQ(world.Agent("node-1").signals.back().ranks_size(), 0);
  EXPECT_EQ(Signal(world, job, SIGUSR2, {3})->nodes(), 1u);
  EXPECT_EQ(world.Agent("node-1").signals.size(), 1u);
  EXPECT_EQ(world.Agent("node-2").signals.back().ranks(0), 3u);
}

TEST(SignalJob, SaysWhyItCannot) {
  World world;
  const JobId waiting = world.Submit(world.Spec({"node-9"}));
  EXPECT_EQ(Signal(world, waiting, SIGUSR1).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Signal(world, JobId("nosuch"), SIGUSR1).status().code(), absl::StatusCode::kNotFound);
  const JobId job = world.SubmitAndStart(world.Spec({"node-1"}));
  EXPECT_EQ(Signal(world, job, 0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Signal(world, job, SIGUSR1, {9}).status().code(), absl::StatusCode::kInvalidArgument);
  world.Disconnect("node-1");
  EXPECT_EQ(Signal(world, job, SIGUSR1).status().code(), absl::StatusCode::kUnavailable);
}

// Takes every update as soon as it is told, or only when asked.
class Watcher final : public JobWatcher {
 public:
  explicit Watcher(World& world, bool eager = true) : world_(world), eager_(eager) {}
  void OnUpdateReady(WatchHandle watch) override {
    ++calls;
    if (eager_) Take(watch);
  }
  bool Take(WatchHandle watch) {
    std::optional<JobUpdate> update = world_.core().TakeUpdate(watch);
    if (update.has_value()) updates.push_back(*std::move(update));
    return update.has_value();
  }
  std::vector<JobUpdate> updates;
  int calls = 0;

 private:
  World& world_;
  bool eager_;
};

TEST(Watch, ShowsTheWholeJobThenOnlyWhatChanged) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1", "node-2"}));
  Watcher watcher(world);
  ASSERT_TRUE(world.core().WatchJob(job, {"alice"}, &watcher).ok());
  EXPECT_EQ(watcher.calls, 0) << "not from inside the call";
  world.Settle();
  ASSERT_EQ(watcher.updates.size(), 1u);
  EXPECT_EQ(watcher.updates[0].job.ranks_size(), 4);
  EXPECT_EQ(watcher.updates[0].job.nodes_size(), 2);
  world.Exited(2, 0);
  ASSERT_EQ(watcher.updates.size(), 2u);
  ASSERT_EQ(watcher.updates[1].job.ranks_size(), 1);
  EXPECT_EQ(watcher.updates[1].job.ranks(0).rank(), 2u);
  EXPECT_EQ(watcher.updates[1].job.nodes_size(), 0);
  EXPECT_GT(watcher.updates[1].job.revision(), watcher.updates[0].job.revision());
  world.FinishAll();
  EXPECT_TRUE(watcher.updates.back().last);
  EXPECT_EQ(watcher.updates.back().job.state(), v1::Job::SUCCEEDED);
  for (size_t i = 0; i + 1 < watcher.updates.size(); ++i) EXPECT_FALSE(watcher.updates[i].last);
}

TEST(Watch, ASlowWatcherGetsOneMergedUpdate) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1", "node-2"}));
  Watcher watcher(world, false);
  const WatchHandle watch = *world.core().WatchJob(job, {"alice"}, &watcher);
  world.Settle();
  EXPECT_TRUE(watcher.Take(watch));
  world.Exited(0, 0);
  world.Exited(1, 0);
  world.Exited(2, 5);
  EXPECT_EQ(watcher.calls, 2) << "told once, however much happens";
  EXPECT_TRUE(watcher.Take(watch));
  EXPECT_EQ(watcher.updates[1].job.ranks_size(), 3);
  EXPECT_EQ(watcher.updates[1].job.state(), v1::Job::STOPPING);
  EXPECT_FALSE(watcher.Take(watch)) << "nothing new";
}

TEST(Watch, ShowsNothingThatIsNotStored) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1"}));
  Watcher watcher(world);
  const WatchHandle watch = *world.core().WatchJob(job, {"alice"}, &watcher);
  world.Settle();
  world.disk().latency = milliseconds(100);
  world.LogClosed(0, 5);
  world.Run(milliseconds(50));
  EXPECT_FALSE(watcher.Take(watch));
  EXPECT_EQ(watcher.updates.size(), 1u);
  world.Run(milliseconds(100));
  EXPECT_EQ(watcher.updates.size(), 2u);
}

TEST(Watch, OfAnEndedJobIsOneLastUpdate) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1"}));
  world.FinishAll();
  Watcher watcher(world);
  ASSERT_TRUE(world.core().WatchJob(job, {"alice"}, &watcher).ok());
  world.Settle();
  ASSERT_EQ(watcher.updates.size(), 1u);
  EXPECT_TRUE(watcher.updates[0].last);
  EXPECT_EQ(watcher.updates[0].job.ranks_size(), 2);
}

TEST(Watch, TellsOfContactAndOfWaiting) {
  World world;
  const JobId job = world.Submit(world.Spec({"node-1", "node-2"}));
  Watcher watcher(world);
  ASSERT_TRUE(world.core().WatchJob(job, {"alice"}, &watcher).ok());
  world.Settle();
  EXPECT_THAT(watcher.updates.back().job.reason(), HasSubstr("2 of 2 hosts"));
  world.Join("node-1");
  world.Run(seconds(1));
  EXPECT_THAT(watcher.updates.back().job.reason(), HasSubstr("1 of 2 hosts"));
  world.Join("node-2");
  world.PreparedAll();
  world.Disconnect("node-2");
  EXPECT_TRUE(watcher.updates.back().job.nodes(1).suspect());
}

TEST(Watch, EndsWhenItIsNotWantedAnyMore) {
  World world;
  const JobId job = world.SubmitAndStart(world.Spec({"node-1"}));
  auto watcher = std::make_unique<Watcher>(world);
  const WatchHandle watch = *world.core().WatchJob(job, {"alice"}, watcher.get());
  world.core().Unwatch(watch);
  watcher.reset();
  world.FinishAll();
  world.core().Unwatch(watch);
  EXPECT_EQ(world.core().TakeUpdate(watch), std::nullopt);
  EXPECT_EQ(world.core().WatchJob(JobId("nosuch"), {"alice"}, nullptr).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace muster::testing
