// What the agent's core makes of what the node says about a start.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/agent_core/core_fixture.h"

namespace muster::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class AgentCoreInspectorTest : public AgentCoreTest {
 protected:
  void StartInspecting() {
    inspect_ = true;
    StartAgent();
    Connect();
  }
  static v1::Problem Problem(const std::string& check, const std::string& message) {
    v1::Problem problem;
    problem.set_check(check);
    problem.set_message(message);
    return problem;
  }
};

TEST_F(AgentCoreInspectorTest, EveryProblemThatTheNodeFindsIsToldAndNothingIsLaunched) {
  StartInspecting();
  inspector_->found.problems = {Problem("cards", "card 3 is in reset"),
                                Problem("memlock", "only 64 KiB")};
  Assign(Prepare(kJob1));
  EXPECT_THAT(launcher_->Take(), IsEmpty());
  const std::vector<v1::Event> events = TakeEvents();
  ASSERT_EQ(events.size(), 2u);
  ASSERT_EQ(events[0].prepare_failed().problems_size(), 2);
  EXPECT_EQ(events[0].prepare_failed().problems(0).check(), "cards");
  EXPECT_EQ(events[0].prepare_failed().problems(1).message(), "only 64 KiB");
  EXPECT_TRUE(events[1].has_attempt_stopped());
  EXPECT_EQ(observer_.deeds.back().kind, Deed::Kind::kRefuseLaunch);
  EXPECT_EQ(observer_.deeds.back().detail, "cards: card 3 is in reset");
}

TEST_F(AgentCoreInspectorTest, WhatWasFoundIsToldWithPrepared) {
  StartInspecting();
  inspector_->found.warnings = {"hugepages: none free"};
  inspector_->found.report.add_results()->set_check("hugepages");
  v1::RankPlacement placement;
  placement.set_cpus("0-5");
  inspector_->found.placements = {placement};
  Assign(Prepare(kJob1));
  EXPECT_THAT(launcher_->Take(), ElementsAre("launch j1/1"));
  internal::ShimRecord record = Record(1);
  record.mutable_prepared()->add_warnings("from the shim");
  Tell(kJob1, record);
  const std::vector<v1::Event> events = TakeEvents();
  ASSERT_EQ(events.size(), 1u);
  const v1::Prepared& prepared = events[0].prepared();
  EXPECT_THAT(prepared.warnings(), ElementsAre("hugepages: none free", "from the shim"));
  EXPECT_EQ(prepared.report().results(0).check(), "hugepages");
  EXPECT_EQ(prepared.placements(0).cpus(), "0-5");
}

TEST_F(AgentCoreInspectorTest, SeesTheEnvironmentOfTheRanks) {
  StartInspecting();
  Assign(Prepare(kJob1));
  ASSERT_EQ(inspector_->bootstraps.size(), 1u);
  ASSERT_GT(inspector_->bootstraps[0].ranks_size(), 0);
  EXPECT_THAT(inspector_->bootstraps[0].ranks(0).env(),
              ::testing::Contains(std::string("MUSTER_JOB_ID=j1")));
}

TEST_F(AgentCoreInspectorTest, AnAttemptStoppedMeanwhileIsNotLaunched) {
  StartInspecting();
  inspector_->hold = true;
  Assign(Prepare(kJob1));
  Assign(Assignment(kJob1, 2, v1::Assignment::STOPPED));
  EXPECT_THAT(TakeEventWords(), ElementsAre("1 stopped"));
  inspector_->Answer();
  queue_.RunReady();
  EXPECT_THAT(launcher_->Take(), IsEmpty());
}

TEST_F(AgentCoreInspectorTest, WithoutACoordinatorItIsLookedAtAgainLater) {
  StartInspecting();
  inspector_->hold = true;
  Assign(Prepare(kJob1));
  core_->OnDisconnected(absl::UnavailableError("gone"));
  inspector_->Answer();
  queue_.RunReady();
  EXPECT_THAT(launcher_->Take(), IsEmpty());
  inspector_->hold = false;
  Connect({Prepare(kJob1)});
  EXPECT_THAT(launcher_->Take(), ElementsAre("launch j1/1"));
  EXPECT_THAT(inspector_->asked, ElementsAre("j1", "j1"));
}

}  // namespace
}  // namespace muster::testing
