// Finds where to begin reading the end of a frame file. Pure but for the reads that it asks for.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <string>

namespace muster {

// Reads up to `max_bytes` at `offset`; less only at the end.
using ReadAt = std::function<absl::StatusOr<std::string>(uint64_t offset, size_t max_bytes)>;

// Offset of the first frame that begins at or behind `size - tail_bytes` in a frame file of `size`
// bytes; of the last frame when none begins there. 0 for a file without a whole frame.
absl::StatusOr<uint64_t> FindTailStart(uint64_t size, uint64_t tail_bytes, const ReadAt& read);

}  // namespace muster
