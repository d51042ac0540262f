// Wall time as text for people and records. Pure.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <string>

#include "common/base/clock.h"

namespace muster {

// 2026-03-01T12:00:00Z
inline std::string FormatUtc(WallTime time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts = {};
  ::gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

}  // namespace muster
