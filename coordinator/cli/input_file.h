// Reads a file that the user named. Blocks; never writes; any thread.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <string>

namespace muster {

// Largest hostfile or env file that is read.
inline constexpr size_t kMaxInputBytes = 64 << 20;

// The bytes of a file; pipes (`<(...)` of a shell) work too. The error says what is wrong without
// naming the path: NOT_FOUND when there is no such file, FAILED_PRECONDITION for a folder or a file
// that cannot be read, INVALID_ARGUMENT when it is larger than `max_bytes`.
absl::StatusOr<std::string> ReadInputFile(const std::string& path,
                                          size_t max_bytes = kMaxInputBytes);

// A text that is equal for two paths of one existing file; empty when there is no such file.
std::string FileIdentity(const std::string& path);

}  // namespace muster
