// Several inspectors as one, and what the job says about checks.
#include "agent/checks/composite_inspector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/fake_node_inspector.h"
#include "tests/testing/sim_executor.h"

namespace muster::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

void AddResult(Inspection& inspection, const std::string& check, v1::Verdict verdict) {
  v1::CheckResult& result = *inspection.report.add_results();
  result.set_check(check);
  result.set_verdict(verdict);
  result.set_message("found " + check);
  result.set_fix("mend it");
}

std::vector<std::string> ChecksOf(const Inspection& inspection) {
  std::vector<std::string> checks;
  for (const v1::CheckResult& result : inspection.report.results())
    checks.push_back(result.check());
  return checks;
}

TEST(DrawConsequences, AFailureIsAProblemWithItsFix) {
  Inspection inspection;
  AddResult(inspection, "memlock", v1::FAIL);
  AddResult(inspection, "hugepages", v1::WARN);
  AddResult(inspection, "disk", v1::PASS);
  DrawConsequences({}, false, inspection);
  ASSERT_EQ(inspection.problems.size(), 1u);
  EXPECT_EQ(inspection.problems[0].message(), "found memlock (mend it)");
  // A start keeps only what somebody has to know.
  EXPECT_THAT(ChecksOf(inspection), ElementsAre("hugepages"));
}

TEST(DrawConsequences, ThoroughKeepsEverything) {
  Inspection inspection;
  AddResult(inspection, "disk", v1::PASS);
  AddResult(inspection, "memlock", v1::FAIL);
  DrawConsequences({}, true, inspection);
  EXPECT_THAT(ChecksOf(inspection), ElementsAre("disk", "memlock"));
}

TEST(DrawConsequences, SkippedChecksPreventNothing) {
  Inspection inspection;
  AddResult(inspection, "memlock", v1::FAIL);
  v1::LaunchSpec launch;
  launch.add_skip_checks("memlock");
  DrawConsequences(launch, true, inspection);
  EXPECT_THAT(inspection.problems, IsEmpty());
  EXPECT_EQ(inspection.report.results(0).verdict(), v1::SKIPPED);
}

// A message with anything but UTF-8 cannot be read by whoever gets it, and takes the session along.
TEST(DrawConsequences, WhatIsToldIsAlwaysUtf8) {
  Inspection inspection;
  AddResult(inspection, "habana-logs", v1::FAIL);
  inspection.report.mutable_results(0)->set_message("HABANA_LOGS=/tmp/\xff: is not there");
  AddResult(inspection, "disk", v1::WARN);
  // The limit is in the middle of a character.
  std::string path(1999, 'a');
  for (int i = 0; i < 10; ++i) path += "\xc3\xa9";
  inspection.report.mutable_results(1)->set_message(path);
  v1::NodeTrait& trait = *inspection.report.add_traits();
  trait.set_name("tor\xe9");
  trait.set_value("2.0\xc3");
  inspection.problems.emplace_back().set_message("module \x80");
  DrawConsequences({}, true, inspection);
  v1::NodeReport told;
  EXPECT_TRUE(told.ParseFromString(inspection.report.SerializeAsString()));
  EXPECT_EQ(told.traits(0).value(), "2.0?");
  for (const v1::Problem& problem : inspection.problems) {
    EXPECT_TRUE(v1::Problem().ParseFromString(problem.SerializeAsString())) << problem.check();
  }
}

TEST(DrawConsequences, RequiredChecksMustNotWarn) {
  Inspection inspection;
  AddResult(inspection, "hugepages", v1::WARN);
  AddResult(inspection, "disk", v1::WARN);
  v1::LaunchSpec launch;
  launch.add_require_checks("hugepages");
  DrawConsequences(launch, false, inspection);
  ASSERT_EQ(inspection.problems.size(), 1u);
  EXPECT_EQ(inspection.problems[0].check(), "hugepages");
}

class CompositeInspectorTest : public ::testing::Test {
 protected:
  void Inspect(std::vector<NodeInspector*> parts) {
    composite_ = std::make_unique<CompositeInspector>(executor_, std::move(parts));
    const AttemptId attempt{JobId("j1"), 1};
    const v1::LaunchSpec launch;
    const RunAs user;
    const internal::ShimBootstrap bootstrap;
    composite_->Inspect({attempt, launch, user, bootstrap},
                        [this](Inspection found) { answers_.push_back(std::move(found)); });
  }

  SimQueue queue_;
  SimExecutor executor_{queue_};
  FakeNodeInspector first_{executor_};
  FakeNodeInspector second_{executor_};
  std::unique_ptr<CompositeInspector> composite_;
  std::vector<Inspection> answers_;
};

TEST_F(CompositeInspectorTest, WaitsForAllPartsAndKeepsTheirOrder) {
  AddResult(first_.found, "cards", v1::WARN);
  first_.found.warnings = {"one"};
  AddResult(second_.found, "disk", v1::WARN);
  second_.found.placements.resize(2);
  first_.hold = true;
  Inspect({&first_, &second_});
  queue_.RunReady();
  EXPECT_THAT(answers_, IsEmpty());
  first_.Answer();
  queue_.RunReady();
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_THAT(ChecksOf(answers_[0]), ElementsAre("cards", "disk"));
  EXPECT_THAT(answers_[0].warnings, ElementsAre("one"));
  EXPECT_EQ(answers_[0].placements.size(), 2u);
}

TEST_F(CompositeInspectorTest, WithoutPartsItAnswersLater) {
  Inspect({});
  EXPECT_THAT(answers_, IsEmpty());
  queue_.RunReady();
  EXPECT_EQ(answers_.size(), 1u);
}

TEST_F(CompositeInspectorTest, AnswersNobodyWhenItIsGone) {
  first_.hold = true;
  Inspect({&first_});
  composite_.reset();
  first_.Answer();
  queue_.RunReady();
  EXPECT_THAT(answers_, IsEmpty());
}

}  // namespace
}  // namespace muster::testing
