// Sizes that both ends of a connection agree on. Constants only.
#pragma once

#include <cstddef>

namespace muster {

// Largest message of any call. Job specifications carry whole environments and argument lists, so
// it is larger than the 4 MiB of gRPC; a larger one ends with RESOURCE_EXHAUSTED.
inline constexpr int kMaxMessageBytes = 16 << 20;

// Largest job specification that is accepted: plans and records made of it must fit a message too.
inline constexpr size_t kMaxJobSpecBytes = size_t{8} << 20;

// Largest `data` of a LogChunk or of a ReadLogsResponse.
inline constexpr size_t kMaxLogChunkBytes = size_t{256} << 10;

// Largest message that an agent sends over either of its streams, and what it may take in memory: a
// hello with a thousand attempts, a batch of events with long reasons, a chunk of output.
inline constexpr size_t kMaxAgentMessageBytes = size_t{2} << 20;
inline constexpr size_t kMaxAgentMessageMemory = size_t{12} << 20;

// Bytes of output that an agent may send before they are committed; also the most `zeros` of a
// LogChunk.
inline constexpr size_t kMaxUncommittedLogBytes = size_t{8} << 20;

}  // namespace muster
