// Points in time as people type them. Pure but for the time zone of the process.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string_view>

namespace muster {

// Nanoseconds since 1970 for "10m" (that long before `now_ns`), "2026-01-31T12:00:00Z",
// "2026-01-31 12:00:00" and "2026-01-31" (local time), or "12:00" and "12:00:30" (today, local
// time).
absl::StatusOr<int64_t> ParseSince(std::string_view text, int64_t now_ns);

}  // namespace muster
