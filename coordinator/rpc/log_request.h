// What a ReadLogsRequest says about where to begin in a log and what to leave out. Pure.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "coordinator/logs/log_filter.h"
#include "muster/v1/job.pb.h"

namespace muster {

// Nothing when the request filters nothing. INVALID_ARGUMENT says what is wrong with it.
absl::StatusOr<std::optional<LogFilterOptions>> FilterOf(const v1::ReadLogsRequest& request);

// By attempt and rank: how much of the file, filtered as the request says, the caller has.
using KnownPositions = absl::flat_hash_map<std::pair<uint32_t, uint32_t>, uint64_t>;
KnownPositions KnownOf(const v1::ReadLogsRequest& request);

}  // namespace muster
