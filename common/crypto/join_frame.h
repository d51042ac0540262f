// How the messages of join.proto travel on a TLS connection: four bytes of size, big endian, then
// the message. One request, one reply. Pure.
#pragma once

#include <absl/status/statusor.h>
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster {

inline constexpr size_t kJoinHeaderBytes = 4;
inline constexpr size_t kMaxJoinRequestBytes = size_t{16} << 10;
inline constexpr size_t kMaxJoinReplyBytes = size_t{64} << 10;

inline std::string FrameJoinMessage(std::string_view message) {
  const auto size = static_cast<uint32_t>(message.size());
  std::string frame;
  for (const int shift : {24, 16, 8, 0}) frame += static_cast<char>(size >> shift & 255);
  return frame.append(message);
}

// The message in `received`, or nothing when more has to come. INVALID_ARGUMENT: it is empty, or
// longer than `max_bytes`, or has bytes after it.
inline absl::StatusOr<std::optional<std::string_view>> UnframeJoinMessage(std::string_view received,
                                                                          size_t max_bytes) {
  if (received.size() < kJoinHeaderBytes) return std::nullopt;
  size_t size = 0;
  for (size_t i = 0; i < kJoinHeaderBytes; ++i) {
    size = size << 8 | static_cast<unsigned char>(received[i]);
  }
  if (size == 0 || size > max_bytes) {
    return absl::InvalidArgumentError(
        fmt::format("a message of {} bytes, 1 to {} are possible", size, max_bytes));
  }
  received.remove_prefix(kJoinHeaderBytes);
  if (received.size() < size) return std::nullopt;
  if (received.size() > size) return absl::InvalidArgumentError("bytes after the message");
  return received;
}

}  // namespace muster
