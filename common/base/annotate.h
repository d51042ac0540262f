// Adds context to a status, once per layer. Pure.
#pragma once

#include <absl/status/status.h>
#include <fmt/format.h>

#include <string>
#include <string_view>

namespace muster {

// absl keeps its own string_view on Debian 12; these two convert.
inline std::string_view ToStd(absl::string_view s) { return {s.data(), s.size()}; }
inline absl::string_view ToAbsl(std::string_view s) { return {s.data(), s.size()}; }

// Message of a status as a std::string_view, valid as long as the status.
inline std::string_view MessageOf(const absl::Status& status) { return ToStd(status.message()); }

// Returns `status` with "context: " in front of its message; OK stays OK.
inline absl::Status Annotate(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  return absl::Status(status.code(), fmt::format("{}: {}", context, MessageOf(status)));
}

// Status of a failed system call, from `error_number` (an errno value): "context: strerror
// (ENAME)".
absl::Status ErrnoStatus(int error_number, std::string_view context);

}  // namespace muster
