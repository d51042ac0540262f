// How much one user may have at once. Pure; usable from any thread.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <string>

#include "muster/v1/job_spec.pb.h"

namespace muster {

// Of each user who is no admin, over all jobs that have not ended. 0: no limit.
struct UserLimits {
  uint64_t jobs = 0;
  uint64_t ranks = 0;
};

// What a user has of that.
struct UserUsage {
  uint64_t jobs = 0;
  uint64_t ranks = 0;
};

// Ranks that a job asks for. A host whose number of slots is its node's counts as one: how many it
// has is only known once the job is placed.
uint64_t RanksAsked(const v1::JobSpec& spec);

// RESOURCE_EXHAUSTED when a user who has `usage` may not have a job of `ranks` besides; the text
// says which limit, how much the user has, and what to do.
absl::Status CheckUserLimits(const UserLimits& limits, const std::string& user,
                             const UserUsage& usage, uint64_t ranks);

}  // namespace muster
