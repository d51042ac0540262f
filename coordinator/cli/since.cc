#include "coordinator/cli/since.h"

#include <fmt/format.h>
#include <time.h>

#include <chrono>
#include <string>

#include "common/config/duration.h"

namespace muster {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

// What strptime did not read; null when `format` does not fit.
const char* Read(const std::string& text, const char* format, std::tm* out) {
  return ::strptime(text.c_str(), format, out);
}

}  // namespace

absl::StatusOr<int64_t> ParseSince(std::string_view text, int64_t now_ns) {
  if (const absl::StatusOr<Duration> ago = ParseDuration(text); ago.ok()) {
    return now_ns - ago->count();
  }
  const std::string copy(text);
  for (const char* format : {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M",
                             "%Y-%m-%d %H:%M", "%Y-%m-%d", "%H:%M:%S", "%H:%M"}) {
    std::tm when = {};
    const std::time_t now = now_ns / kSecond;
    if (format[1] == 'H') {
      if (::localtime_r(&now, &when) == nullptr) continue;
      when.tm_sec = 0;
    }
    when.tm_isdst = -1;
    const char* rest = Read(copy, format, &when);
    if (rest == nullptr) continue;
    if (std::string_view(rest) == "Z") return int64_t{::timegm(&when)} * kSecond;
    if (*rest == '\0') return int64_t{::mktime(&when)} * kSecond;
  }
  return absl::InvalidArgumentError(fmt::format(
      "expected a time such as 10m, 12:00, 2026-01-31T12:00:00 or 2026-01-31T12:00:00Z, got '{}'",
      text));
}

}  // namespace muster
