#include "coordinator/core/user_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace muster {
namespace {

std::string Several(uint64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

absl::Status TooMany(std::string text, std::string_view setting) {
  return absl::ResourceExhaustedError(
      fmt::format("{} (wait until some of them end, or cancel some: coordinator list, coordinator "
                  "cancel JOB; who runs the coordinator can raise {})",
                  text, setting));
}

}  // namespace

uint64_t RanksAsked(const v1::JobSpec& spec) {
  uint64_t ranks = 0;
  for (const v1::HostEntry& host : spec.hosts()) {
    ranks += host.selected_slots().empty() ? std::max<uint64_t>(host.slot_count(), 1)
                                           : static_cast<uint64_t>(host.selected_slots_size());
  }
  return ranks;
}

absl::Status CheckUserLimits(const UserLimits& limits, const std::string& user,
                             const UserUsage& usage, uint64_t ranks) {
  if (limits.jobs != 0 && usage.jobs >= limits.jobs) {
    return TooMany(
        fmt::format("user {} has {} that {} not ended, and may have {} at once", user,
                    Several(usage.jobs, "job"), usage.jobs == 1 ? "has" : "have", limits.jobs),
        "max_jobs_per_user");
  }
  if (limits.ranks == 0 || usage.ranks + ranks <= limits.ranks) return absl::OkStatus();
  if (ranks > limits.ranks) {
    return absl::ResourceExhaustedError(
        fmt::format("the job has {}, and user {} may have {} at once (make it smaller; who runs "
                    "the coordinator can raise max_ranks_per_user)",
                    Several(ranks, "rank"), user, limits.ranks));
  }
  return TooMany(fmt::format("the job has {}, user {} has {} in jobs that have not ended, and may "
                             "have {} at once",
                             Several(ranks, "rank"), user, usage.ranks, limits.ranks),
                 "max_ranks_per_user");
}

}  // namespace muster
