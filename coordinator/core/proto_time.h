// Converts between std::chrono and protobuf's times. Pure; total: what does not fit is clamped.
#pragma once

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/timestamp.pb.h>

#include <chrono>
#include <cstdint>

#include "common/base/clock.h"

namespace muster {

inline google::protobuf::Timestamp ToTimestamp(WallTime time) {
  const auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch());
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since);
  google::protobuf::Timestamp result;
  result.set_seconds(seconds.count());
  result.set_nanos(static_cast<int32_t>((since - seconds).count()));
  return result;
}

// Nanoseconds since 1970; for ordering stamps of one source.
inline int64_t ToNanoseconds(const google::protobuf::Timestamp& time) {
  constexpr int64_t kLimitSeconds = 9'000'000'000;  // Beyond the year 2255 int64 nanoseconds end.
  if (time.seconds() > kLimitSeconds) return kLimitSeconds * 1'000'000'000;
  if (time.seconds() < -kLimitSeconds) return -kLimitSeconds * 1'000'000'000;
  return time.seconds() * 1'000'000'000 + time.nanos();
}

inline WallTime ToWallTime(const google::protobuf::Timestamp& time) {
  return WallTime(std::chrono::duration_cast<WallTime::duration>(
      std::chrono::nanoseconds(ToNanoseconds(time))));
}

inline google::protobuf::Duration ToProtoDuration(Duration duration) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duration);
  google::protobuf::Duration result;
  result.set_seconds(seconds.count());
  result.set_nanos(static_cast<int32_t>((duration - seconds).count()));
  return result;
}

// With its sign; clamped to what fits.
inline int64_t ToNanoseconds(const google::protobuf::Duration& duration) {
  constexpr int64_t kLimitSeconds = 9'000'000'000;
  if (duration.seconds() > kLimitSeconds) return kLimitSeconds * 1'000'000'000;
  if (duration.seconds() < -kLimitSeconds) return -kLimitSeconds * 1'000'000'000;
  return duration.seconds() * 1'000'000'000 + duration.nanos();
}

// Clamped to 0 .. 100 years, so that sums with a time point never overflow.
inline Duration ToDuration(const google::protobuf::Duration& duration) {
  constexpr int64_t kLimitSeconds = int64_t{100} * 366 * 86400;
  if (duration.seconds() < 0 || duration.nanos() < 0) return Duration::zero();
  if (duration.seconds() >= kLimitSeconds) return std::chrono::seconds(kLimitSeconds);
  return std::chrono::seconds(duration.seconds()) + std::chrono::nanoseconds(duration.nanos());
}

}  // namespace muster
