// Decides what a received assignment changes about the one that is held. Pure.
#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/ids.h"
#include "muster/internal/journal.pb.h"
#include "muster/v1/agent.pb.h"

namespace muster {

// The assignment to hold from now on, complete with launch specification; nothing when `received`
// changes nothing (its generation is not newer, or it releases what is not held). `held` is null
// for an attempt that is not held. INVALID_ARGUMENT: `received` makes no sense and is to be
// ignored.
absl::StatusOr<std::optional<v1::Assignment>> MergeAssignment(const internal::JournalAttempt* held,
                                                              const v1::Assignment& received);

// `[a-z0-9-]{1,63}`: job ids become names of directories.
bool IsValidJobId(std::string_view id);

// Time between SIGTERM and SIGKILL: that of the assignment, else of its launch specification, else
// 30 s. Never negative.
std::chrono::milliseconds GraceOf(const v1::Assignment& assignment);

// How long ranks go on without a coordinator; nothing: for ever. At least a millisecond.
std::optional<std::chrono::milliseconds> StopAfterOf(const v1::LaunchSpec& launch);

// Whether the coordinator wants no rank of the attempt to run any more.
bool EndsRanks(const v1::Assignment& assignment);

}  // namespace muster
