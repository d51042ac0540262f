// The lock of an agent's state directory: at most one agent works in it. Taken once in main, before
// other threads exist, and held until the process ends.
#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <string>

#include "common/io/unique_fd.h"

namespace muster {

// Makes the directory (0700, parents too) if it is missing.
absl::Status MakeStateDirectory(const std::string& path);

// Takes the lock. When another agent has it, waits up to `patience` for that one's end, as it may
// have been killed just now; then FAILED_PRECONDITION with its process number.
absl::StatusOr<UniqueFd> LockStateDirectory(const std::string& path,
                                            std::chrono::milliseconds patience);

}  // namespace muster
