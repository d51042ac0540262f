#include "coordinator/cli/exit_status.h"

namespace muster {
namespace {

bool EveryRankSucceeded(const v1::Job& job) {
  if (job.ranks_size() == 0 || static_cast<uint32_t>(job.ranks_size()) < job.world_size()) {
    return false;
  }
  for (const v1::JobRank& rank : job.ranks()) {
    if (rank.state() != v1::JobRank::EXITED) return false;
    if (rank.status().outcome_case() != v1::ExitStatus::kExitCode) return false;
    if (rank.status().exit_code() != 0) return false;
  }
  return true;
}

}  // namespace

bool IsTerminal(const v1::Job& job) {
  switch (job.state()) {
    case v1::Job::SUCCEEDED:
    case v1::Job::FAILED:
    case v1::Job::CANCELLED:
      return true;
    default:
      return false;
  }
}

int ExitStatusOf(const v1::Job& job) {
  if (!IsTerminal(job)) return kExitBug;
  if (job.state() == v1::Job::SUCCEEDED) return EveryRankSucceeded(job) ? 0 : kExitBug;
  // A shell keeps eight bits: a status that they would turn into 0 must not look like success.
  if ((job.exit_code() & 0xff) == 0) return kExitBug;
  return job.exit_code() & 0xff;
}

int ExitStatusInList(const v1::Job& job) {
  const bool success = job.state() == v1::Job::SUCCEEDED && job.exit_code() == 0;
  return success && job.ranks().empty() ? 0 : ExitStatusOf(job);
}

int ExitStatusOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return kExitNoCoordinator;
    case absl::StatusCode::kResourceExhausted:
      return kExitNotStarted;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kOutOfRange:
      return kExitUsage;
    default:
      return kExitBug;
  }
}

}  // namespace muster
