// How much one user may have at once.
#include "coordinator/core/user_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/coordinator_core/world.h"

namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(RanksAsked, CountsSlotsThatAreKnownAndOnePerHostElse) {
  v1::JobSpec spec;
  spec.add_hosts()->set_slot_count(4);
  spec.add_hosts();
  v1::HostEntry& chosen = *spec.add_hosts();
  chosen.set_slot_count(8);
  chosen.add_selected_slots(1);
  chosen.add_selected_slots(3);
  EXPECT_EQ(RanksAsked(spec), 4u + 1 + 2);
}

TEST(CheckUserLimits, SaysWhichLimitWhatThereIsAndWhatToDo) {
  const UserLimits limits{.jobs = 2, .ranks = 10};
  EXPECT_TRUE(CheckUserLimits(limits, "alice", {.jobs = 1, .ranks = 6}, 4).ok());
  const absl::Status jobs = CheckUserLimits(limits, "alice", {.jobs = 2, .ranks = 2}, 1);
  EXPECT_TRUE(absl::IsResourceExhausted(jobs));
  EXPECT_THAT(std::string(jobs.message()),
              AllOf(HasSubstr("user alice has 2 jobs that have not ended, and may have 2 at once"),
                    HasSubstr("coordinator cancel JOB"), HasSubstr("max_jobs_per_user")));
  const absl::Status ranks = CheckUserLimits(limits, "alice", {.jobs = 1, .ranks = 6}, 5);
  EXPECT_TRUE(absl::IsResourceExhausted(ranks));
  EXPECT_THAT(std::string(ranks.message()),
              AllOf(HasSubstr("the job has 5 ranks, user alice has 6"), HasSubstr("may have 10"),
                    HasSubstr("max_ranks_per_user")));
  // Waiting would not help.
  const absl::Status large = CheckUserLimits(limits, "alice", {}, 11);
  EXPECT_TRUE(absl::IsResourceExhausted(large));
  EXPECT_THAT(std::string(large.message()), HasSubstr("make it smaller"));
}

TEST(CheckUserLimits, ZeroIsNoLimit) {
  EXPECT_TRUE(CheckUserLimits({}, "alice", {.jobs = 1'000'000, .ranks = 1'000'000}, 1000).ok());
}

CoordinatorOptions Limited(uint64_t jobs, uint64_t ranks) {
  CoordinatorOptions options;
  options.user_limits = {.jobs = jobs, .ranks = ranks};
  return options;
}

absl::Status Submit(World& world, const Caller& caller, int slots = 2, std::string request = "") {
  v1::SubmitJobRequest asked;
  asked.set_request_id(std::move(request));
  *asked.mutable_spec() = World::Spec({"node-1"}, slots);
  return world
      .Await<v1::Job>([&](auto done) { world.core().SubmitJob(asked, caller, std::move(done)); })
      .status();
}

TEST(UserLimits, CountOnlyJobsOfTheUserThatHaveNotEnded) {
  World world(Limited(2, 0));
  const Caller alice{"alice"};
  EXPECT_TRUE(Submit(world, alice, 2, "first").ok());
  const JobId second = world.Submit(World::Spec({"node-1"}));
  EXPECT_TRUE(absl::IsResourceExhausted(Submit(world, alice)));
  EXPECT_TRUE(Submit(world, alice, 2, "first").ok()) << "asked again, it is no other job";
  EXPECT_TRUE(Submit(world, Caller{"bob"}).ok());
  // What waits ends at once.
  world.Cancel(second);
  EXPECT_TRUE(Submit(world, alice).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Submit(world, alice)));
}

TEST(UserLimits, CountRanks) {
  World world(Limited(0, 5));
  const Caller alice{"alice"};
  EXPECT_TRUE(Submit(world, alice, 3).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Submit(world, alice, 3)));
  EXPECT_TRUE(Submit(world, alice, 2).ok());
}

TEST(UserLimits, AreNotForAdmins) {
  World world(Limited(1, 1));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Submit(world, Caller{"root", true}).ok());
}

TEST(UserLimits, CountAgainAfterARestart) {
  World world(Limited(1, 0));
  world.Submit(World::Spec({"node-1"}));
  world.Restart();
  EXPECT_TRUE(absl::IsResourceExhausted(Submit(world, Caller{"alice"})));
}

TEST(UserLimits, EndWithTheJob) {
  World world(Limited(1, 2));
  world.SubmitAndStart(World::Spec({"node-1"}));
  EXPECT_TRUE(absl::IsResourceExhausted(Submit(world, Caller{"alice"})));
  world.FinishAll();
  EXPECT_TRUE(Submit(world, Caller{"alice"}).ok());
}

}  // namespace
}  // namespace muster::testing
