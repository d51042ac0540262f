// The lock of a daemon's state directory: at most one agent or coordinator works in it. Taken once
// in main, before other threads exist, and held until the process ends.
#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <string>
#include <string_view>

#include "common/io/unique_fd.h"

namespace muster {

// Makes the directory (0700, parents too) if it is missing.
absl::Status MakeStateDirectory(const std::string& path);

// Takes the lock (flock on PATH/lock). When another process has it, waits up to `patience` for that
// one's end, as it may have been killed just now; then FAILED_PRECONDITION with its process number.
// `program` is what the text calls it.
absl::StatusOr<UniqueFd> LockStateDirectory(const std::string& path, std::string_view program,
                                            std::chrono::milliseconds patience);

}  // namespace muster
