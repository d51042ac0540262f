// Reads the last lines that a rank wrote. Blocks for a bounded time; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/cli/job_source.h"

namespace muster {

// Up to `count` last lines of both streams of a rank in order, oldest first, without control
// sequences, long ones cut. Empty when there are none or they cannot be read in time.
std::vector<std::string> ReadLastLines(JobSource& source, const std::string& job_id, uint32_t rank,
                                       size_t count);

}  // namespace muster
