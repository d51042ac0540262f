#include "agent/core/assignments.h"

#include <fmt/format.h>
#include <google/protobuf/util/time_util.h>

#include <algorithm>

namespace muster {
namespace {

using google::protobuf::util::TimeUtil;
using std::chrono::milliseconds;

constexpr milliseconds kDefaultGrace{30'000};

}  // namespace

bool IsValidJobId(std::string_view id) {
  return !id.empty() && id.size() <= 63 && std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

absl::StatusOr<std::optional<v1::Assignment>> MergeAssignment(const internal::JournalAttempt* held,
                                                              const v1::Assignment& received) {
  if (!IsValidJobId(received.key().job_id()) || received.key().attempt() == 0) {
    return absl::InvalidArgumentError("the assignment names no valid attempt");
  }
  if (received.desired() < v1::Assignment::PREPARED ||
      received.desired() > v1::Assignment::RELEASED) {
    return absl::InvalidArgumentError(
        fmt::format("the assignment wants state {}, which this version does not know",
                    static_cast<int>(received.desired())));
  }
  if (held == nullptr) {
    if (received.desired() == v1::Assignment::RELEASED) return std::nullopt;
    return received;
  }
  const v1::Assignment& before = held->assignment();
  if (received.generation() <= before.generation()) return std::nullopt;
  v1::Assignment merged = received;
  // What an attempt launches never changes, and the ranks that are held belong to it.
  if (before.has_launch()) *merged.mutable_launch() = before.launch();
  if (!merged.has_rendezvous() && before.has_rendezvous()) {
    *merged.mutable_rendezvous() = before.rendezvous();
  }
  // Attempts only move towards their end.
  merged.set_desired(std::max(received.desired(), before.desired()));
  if (merged.desired() == v1::Assignment::RUNNING && !merged.has_rendezvous()) {
    return absl::InvalidArgumentError("the assignment runs ranks without a rendezvous");
  }
  return merged;
}

milliseconds GraceOf(const v1::Assignment& assignment) {
  if (!assignment.has_stop_grace() && !assignment.launch().has_stop_grace()) return kDefaultGrace;
  const auto& grace =
      assignment.has_stop_grace() ? assignment.stop_grace() : assignment.launch().stop_grace();
  return std::max(milliseconds(TimeUtil::DurationToMilliseconds(grace)), milliseconds(0));
}

std::optional<milliseconds> StopAfterOf(const v1::LaunchSpec& launch) {
  if (!launch.has_on_coordinator_loss() || !launch.on_coordinator_loss().has_stop_after()) {
    return std::nullopt;
  }
  const int64_t ms = TimeUtil::DurationToMilliseconds(launch.on_coordinator_loss().stop_after());
  return std::max(milliseconds(ms), milliseconds(1));
}

bool EndsRanks(const v1::Assignment& assignment) {
  return assignment.desired() == v1::Assignment::STOPPED ||
         assignment.desired() == v1::Assignment::RELEASED;
}

}  // namespace muster
