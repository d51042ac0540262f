// Who sees and ends which jobs, and who may run as whom.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/coordinator_core/world.h"

namespace muster::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Caller kAlice{"alice"};
const Caller kBob{"bob"};
const Caller kAdmin{"root", true};
const Caller kUnknown{};

class Ignored final : public JobWatcher {
 public:
  void OnUpdateReady(WatchHandle) override {}
};

absl::StatusCode Get(World& world, const JobId& job, const Caller& caller) {
  v1::GetJobRequest request;
  request.set_job_id(job.value());
  return world
      .Await<v1::Job>([&](auto done) { world.core().GetJob(request, caller, std::move(done)); })
      .status()
      .code();
}

std::vector<std::string> List(World& world, const Caller& caller, int page_size = 0) {
  std::vector<std::string> ids;
  v1::ListJobsRequest request;
  request.set_page_size(page_size);
  do {
    const auto page = world.Await<v1::ListJobsResponse>(
        [&](auto done) { world.core().ListJobs(request, caller, std::move(done)); });
    if (!page.ok()) return {page.status().ToString()};
    for (const v1::Job& job : page->jobs()) ids.push_back(job.job_id());
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  return ids;
}

absl::Status SubmitAs(World& world, const std::string& user, const Caller& caller,
                      std::string request_id = "") {
  v1::SubmitJobRequest request;
  request.set_request_id(std::move(request_id));
  *request.mutable_spec() = world.Spec({"node-1"});
  request.mutable_spec()->set_user(user);
  return world
      .Await<v1::Job>([&](auto done) { world.core().SubmitJob(request, caller, std::move(done)); })
      .status();
}

TEST(Callers, AJobOfSomebodyElseIsNotThere) {
  World world;
  const JobId job = world.Submit(world.Spec({"node-1"}));
  EXPECT_EQ(Get(world, job, kAlice), absl::StatusCode::kOk);
  EXPECT_EQ(Get(world, job, kAdmin), absl::StatusCode::kOk);
  for (const Caller& other : {kBob, kUnknown}) {
    EXPECT_EQ(Get(world, job, other), absl::StatusCode::kNotFound);
    EXPECT_FALSE(world.core().MaySee(job, other));
    Ignored watcher;
    EXPECT_TRUE(absl::IsNotFound(world.core().WatchJob(job, other, &watcher).status()));
    v1::CancelJobRequest cancel;
    cancel.set_job_id(job.value());
    EXPECT_TRUE(absl::IsNotFound(world
                                     .Await<v1::Job>([&](auto done) {
                                       world.core().CancelJob(cancel, other, std::move(done));
                                     })
                                     .status()));
    v1::SignalJobRequest signal;
    signal.set_job_id(job.value());
    signal.set_signal(10);
    EXPECT_TRUE(absl::IsNotFound(world
                                     .Await<v1::SignalJobResponse>([&](auto done) {
                                       world.core().SignalJob(signal, other, std::move(done));
                                     })
                                     .status()));
  }
  EXPECT_EQ(world.Job(job).state(), v1::Job::PENDING);
  // The same words as for a job that nobody has.
  EXPECT_EQ(Get(world, JobId("no-such-job"), kBob), absl::StatusCode::kNotFound);
}

TEST(Callers, ListsShowOnesOwnAndAdminsAll) {
  World world;
  std::vector<std::string> all;
  std::vector<std::string> of_bob;
  for (int i = 0; i < 7; ++i) {
    const bool bob = i % 3 == 1;
    const auto job = world.TrySubmit(world.Spec({"node-1"}), "", bob ? "bob" : "alice");
    ASSERT_TRUE(job.ok());
    all.insert(all.begin(), job->job_id());
    if (bob) of_bob.insert(of_bob.begin(), job->job_id());
  }
  EXPECT_EQ(List(world, kAdmin), all);
  EXPECT_EQ(List(world, kAdmin, 2), all);
  EXPECT_EQ(List(world, kBob), of_bob);
  EXPECT_EQ(List(world, kBob, 1), of_bob);
  EXPECT_THAT(List(world, kUnknown), IsEmpty());
}

TEST(Callers, NodesShowOnesOwnJobsAndAdminsAll) {
  World world;
  world.Join("node-1", 2);
  const JobId job = world.Submit(world.Spec({"node-1"}));
  const auto jobs_on_node = [&](const Caller& caller) {
    const auto nodes = world.Await<v1::ListNodesResponse>(
        [&](auto done) { world.core().ListNodes({}, caller, std::move(done)); });
    const auto& ids = nodes->nodes(0).job_ids();
    return std::vector<std::string>(ids.begin(), ids.end());
  };
  EXPECT_THAT(jobs_on_node(kAlice), ElementsAre(job.value()));
  EXPECT_THAT(jobs_on_node(kAdmin), ElementsAre(job.value()));
  EXPECT_THAT(jobs_on_node(kBob), IsEmpty());
  EXPECT_THAT(jobs_on_node(kUnknown), IsEmpty());
}

TEST(Callers, RequestIdsAreOnesOwn) {
  World world;
  const auto of_alice = world.TrySubmit(world.Spec({"node-1"}), "r1", "alice");
  const auto of_bob = world.TrySubmit(world.Spec({"node-1"}), "r1", "bob");
  ASSERT_TRUE(of_alice.ok());
  ASSERT_TRUE(of_bob.ok());
  EXPECT_NE(of_alice->job_id(), of_bob->job_id());
  EXPECT_EQ(world.TrySubmit(world.Spec({"node-1"}), "r1", "bob")->job_id(), of_bob->job_id());
}

TEST(Callers, OnlyAdminsRunJobsAsOthers) {
  World world;
  EXPECT_TRUE(SubmitAs(world, "alice", kAlice).ok());
  EXPECT_TRUE(SubmitAs(world, "bob", kAdmin).ok());
  for (const char* other : {"bob", "root", "0"}) {
    const absl::Status refused = SubmitAs(world, other, kAlice);
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << other;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("only an admin may name another user"));
  }
  for (const char* nonsense : {"a b", "x\ny"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(SubmitAs(world, nonsense, kAdmin))) << nonsense;
  }
}

TEST(Callers, NodesAreToldWhoTheRanksAre) {
  World world;
  world.Join("node-1", 2);
  const JobId job = world.Submit(world.Spec({"node-1"}));
  EXPECT_EQ(world.Agent("node-1").Find(job)->launch().user(), "alice");
}

}  // namespace
}  // namespace muster::testing
