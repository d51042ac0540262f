#include "agent/core/assignments.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

using std::chrono::milliseconds;
using v1::Assignment;

Assignment Make(uint64_t generation, Assignment::Desired desired) {
  Assignment assignment;
  assignment.mutable_key()->set_job_id("j1");
  assignment.mutable_key()->set_attempt(1);
  assignment.set_generation(generation);
  assignment.set_desired(desired);
  return assignment;
}

internal::JournalAttempt Held(uint64_t generation, Assignment::Desired desired) {
  internal::JournalAttempt held;
  *held.mutable_assignment() = Make(generation, desired);
  held.mutable_assignment()->mutable_launch()->add_argv("held");
  return held;
}

TEST(MergeAssignment, TakesOneThatIsNotHeld) {
  const auto merged = MergeAssignment(nullptr, Make(1, Assignment::PREPARED));
  ASSERT_TRUE(merged.ok() && merged->has_value());
  EXPECT_EQ((*merged)->generation(), 1u);
}

TEST(MergeAssignment, IgnoresTheReleaseOfWhatIsNotHeld) {
  const auto merged = MergeAssignment(nullptr, Make(9, Assignment::RELEASED));
  ASSERT_TRUE(merged.ok());
  EXPECT_FALSE(merged->has_value());
}

TEST(MergeAssignment, IgnoresEqualAndOlderGenerations) {
  const internal::JournalAttempt held = Held(5, Assignment::PREPARED);
  for (const uint64_t generation : {0, 4, 5}) {
    const auto merged = MergeAssignment(&held, Make(generation, Assignment::STOPPED));
    ASSERT_TRUE(merged.ok());
    EXPECT_FALSE(merged->has_value()) << generation;
  }
}

TEST(MergeAssignment, KeepsTheLaunchSpecificationThatIsHeld) {
  const internal::JournalAttempt held = Held(5, Assignment::PREPARED);
  Assignment received = Make(6, Assignment::STOPPED);
  auto merged = MergeAssignment(&held, received);
  ASSERT_TRUE(merged.ok() && merged->has_value());
  EXPECT_EQ((*merged)->launch().argv(0), "held");
  received.mutable_launch()->add_argv("other");
  merged = MergeAssignment(&held, received);
  ASSERT_TRUE(merged.ok() && merged->has_value());
  EXPECT_EQ((*merged)->launch().argv(0), "held");
}

TEST(MergeAssignment, NeverMovesBack) {
  const internal::JournalAttempt held = Held(5, Assignment::STOPPED);
  Assignment received = Make(6, Assignment::RUNNING);
  received.mutable_rendezvous()->set_port(1);
  const auto merged = MergeAssignment(&held, received);
  ASSERT_TRUE(merged.ok() && merged->has_value());
  EXPECT_EQ((*merged)->desired(), Assignment::STOPPED);
  EXPECT_EQ((*merged)->generation(), 6u);
}

TEST(MergeAssignment, RefusesWhatMakesNoSense) {
  const internal::JournalAttempt held = Held(5, Assignment::PREPARED);
  EXPECT_FALSE(MergeAssignment(&held, Make(6, Assignment::RUNNING)).ok()) << "no rendezvous";
  EXPECT_FALSE(MergeAssignment(&held, Make(6, Assignment::DESIRED_UNSPECIFIED)).ok());
  EXPECT_FALSE(MergeAssignment(&held, Make(6, static_cast<Assignment::Desired>(77))).ok());
  Assignment odd = Make(6, Assignment::PREPARED);
  for (const char* job : {"", "../x", "a/b", "UPPER", "a b"}) {
    odd.mutable_key()->set_job_id(job);
    EXPECT_FALSE(MergeAssignment(nullptr, odd).ok()) << job;
  }
  odd = Make(6, Assignment::PREPARED);
  odd.mutable_key()->set_attempt(0);
  EXPECT_FALSE(MergeAssignment(nullptr, odd).ok());
}

TEST(GraceOf, PrefersTheAssignmentThenTheLaunchSpecification) {
  Assignment assignment = Make(1, Assignment::STOPPED);
  EXPECT_EQ(GraceOf(assignment), milliseconds(30'000));
  assignment.mutable_launch()->mutable_stop_grace()->set_seconds(5);
  EXPECT_EQ(GraceOf(assignment), milliseconds(5000));
  assignment.mutable_stop_grace()->set_seconds(0);
  EXPECT_EQ(GraceOf(assignment), milliseconds(0));
  assignment.mutable_stop_grace()->set_seconds(-4);
  EXPECT_EQ(GraceOf(assignment), milliseconds(0));
}

TEST(StopAfterOf, IsUnsetUnlessThePolicySaysOtherwise) {
  v1::LaunchSpec launch;
  EXPECT_FALSE(StopAfterOf(launch).has_value());
  launch.mutable_on_coordinator_loss();
  EXPECT_FALSE(StopAfterOf(launch).has_value());
  launch.mutable_on_coordinator_loss()->mutable_stop_after()->set_seconds(6);
  EXPECT_EQ(StopAfterOf(launch), milliseconds(6000));
  launch.mutable_on_coordinator_loss()->mutable_stop_after()->set_seconds(0);
  EXPECT_EQ(StopAfterOf(launch), milliseconds(1));
}

}  // namespace
}  // namespace muster
