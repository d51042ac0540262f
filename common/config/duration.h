// Lengths of time as people write them: 30s, 5m, 24h, 1h30m. Pure.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

#include "common/base/clock.h"

namespace muster {

// Longest length of time that may be written: ten years.
inline constexpr Duration kMaxDuration = std::chrono::hours(24 * 365 * 10);

// Reads numbers with the units `d`, `h`, `m`, `s`, `ms`, the larger first, each once: "1h30m",
// "1.5s". A number alone is in seconds. INVALID_ARGUMENT says what is wrong.
absl::StatusOr<Duration> ParseDuration(std::string_view text);

// The shortest text that ParseDuration reads back to the same value, rounded down to milliseconds.
std::string FormatDuration(Duration duration);

}  // namespace muster
