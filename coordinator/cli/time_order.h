// Merges the output of many ranks by the time at which the nodes read it. Owns one reading thread
// per rank; memory is bounded per rank. Blocks the caller.
#pragma once

#include <absl/status/status.h>

#include <functional>
#include <span>
#include <string>

#include "coordinator/cli/job_source.h"
#include "coordinator/cli/log_follower.h"
#include "coordinator/cli/log_lines.h"

namespace muster {

// More ranks would need too many threads.
inline constexpr size_t kMaxOrderedRanks = 512;

// Reads `ranks` of a job as `logs` says (its ranks are replaced) and gives lines in order of time.
// With `logs.request.follow`, lines of ranks that say nothing are not waited for longer than half a
// second, so that what comes late may be out of order.
absl::Status ReadInTimeOrder(JobSource& source, const LogFollower::Options& logs,
                             std::span<const uint32_t> ranks, ControlSequences control_sequences,
                             const std::function<void(LogLine)>& on_line,
                             const std::function<void()>& on_idle);

}  // namespace muster
