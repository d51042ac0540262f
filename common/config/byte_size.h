// Numbers of bytes as people write them: 512MiB, 4GiB. Pure.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string_view>

namespace muster {

// Largest number of bytes that may be written: 1024 TiB.
inline constexpr uint64_t kMaxByteSize = uint64_t{1} << 50;

// Reads a whole number with one of the units `KiB`, `MiB`, `GiB`, or alone, which is bytes.
// INVALID_ARGUMENT says what is wrong.
absl::StatusOr<uint64_t> ParseByteSize(std::string_view text);

}  // namespace muster
