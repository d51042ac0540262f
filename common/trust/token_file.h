// The token of a join, from where others cannot see it.
#pragma once

#include <absl/status/statusor.h>

#include <string>

namespace muster {

// The contents of `path` (`-`: standard input), at most 4 KiB of them. INVALID_ARGUMENT: it cannot
// be read.
absl::StatusOr<std::string> ReadTokenFile(const std::string& path);

}  // namespace muster
