// Sentences about jobs, ranks and nodes for people. Pure. One line each, no final full stop; they
// always name the rank, the host and the process.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "coordinator/core/job_record.h"
#include "muster/v1/types.pb.h"

namespace muster {

// "exited with code 7", "was killed by SIGKILL (out of memory)", "could not be executed: ...".
std::string DescribeStatus(const v1::ExitStatus& status);

// "rank 3 on node-2 (pid 4711)"; without the pid when it never ran.
std::string DescribeRank(const AttemptRecord& attempt, uint32_t rank);

// "5m", "1h30m", "2.5s".
std::string DescribeDuration(Duration duration);

// "a, b, c"; beyond `limit` names "a, b, c and 97 more".
std::string JoinNames(const std::vector<std::string>& names, size_t limit);

// `reason` on one line, cut to a sane length.
std::string OneLine(std::string_view text);

}  // namespace muster
