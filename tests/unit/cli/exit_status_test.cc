#include "coordinator/cli/exit_status.h"

#include <gtest/gtest.h>

#include "tests/unit/cli/sample_job.h"

namespace muster {
namespace {

using testing::Code;
using testing::FailedJob;
using testing::SucceededJob;

TEST(ExitStatusOf, IsZeroOnlyWithEveryRecord) {
  v1::Job job = SucceededJob();
  EXPECT_EQ(ExitStatusOf(job), 0);
  job.mutable_ranks(3)->mutable_status()->set_exit_code(1);
  EXPECT_EQ(ExitStatusOf(job), kExitBug);
  job.mutable_ranks(3)->clear_status();
  EXPECT_EQ(ExitStatusOf(job), kExitBug);
  job = SucceededJob();
  job.mutable_ranks()->RemoveLast();
  EXPECT_EQ(ExitStatusOf(job), kExitBug);
}

TEST(ExitStatusOf, PassesTheJobsStatusOn) {
  EXPECT_EQ(ExitStatusOf(FailedJob(Code(7), 7)), 7);
  EXPECT_EQ(ExitStatusOf(FailedJob(Code(255), 255)), 255);
}

TEST(ExitStatusOf, FailureIsNeverZero) {
  EXPECT_EQ(ExitStatusOf(FailedJob(Code(7), 0)), kExitBug);
  EXPECT_EQ(ExitStatusOf(FailedJob(Code(7), 256)), kExitBug);
}

TEST(ExitStatusOf, RunningJobHasNone) { EXPECT_EQ(ExitStatusOf(testing::RunningJob()), kExitBug); }

TEST(ExitStatusInList, IsWhatTheCoordinatorSaysWithoutRanks) {
  v1::Job job = SucceededJob();
  EXPECT_EQ(ExitStatusInList(job), 0);
  job.mutable_ranks(3)->clear_status();
  EXPECT_EQ(ExitStatusInList(job), kExitBug);
  job.clear_ranks();
  EXPECT_EQ(ExitStatusInList(job), 0);
  job.set_exit_code(1);
  EXPECT_EQ(ExitStatusInList(job), kExitBug);
  job = FailedJob(Code(7), 7);
  job.clear_ranks();
  EXPECT_EQ(ExitStatusInList(job), 7);
}

TEST(ExitStatusOf, CallsThatFailed) {
  EXPECT_EQ(ExitStatusOf(absl::OkStatus()), 0);
  EXPECT_EQ(ExitStatusOf(absl::UnavailableError("")), kExitNoCoordinator);
  EXPECT_EQ(ExitStatusOf(absl::DeadlineExceededError("")), kExitNoCoordinator);
  EXPECT_EQ(ExitStatusOf(absl::InvalidArgumentError("")), kExitUsage);
  EXPECT_EQ(ExitStatusOf(absl::NotFoundError("")), kExitUsage);
  EXPECT_EQ(ExitStatusOf(absl::InternalError("")), kExitBug);
}

}  // namespace
}  // namespace muster
