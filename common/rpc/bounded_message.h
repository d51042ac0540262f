// Parses messages of peers that may be hostile. A message of a few megabytes can take a hundred
// times as much memory once it is parsed (empty messages in a list: 2 bytes each on the wire), so
// that what it will take is estimated before. Pure.
#pragma once

#include <absl/status/status.h>
#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstddef>

namespace muster {

struct MessageBounds {
  // As it came.
  size_t wire_bytes = 0;
  // Estimate of what it takes when it is parsed: on the safe side, by a factor of about two.
  size_t memory_bytes = 0;
};

// RESOURCE_EXHAUSTED: it is larger than `bounds`; nothing of it was parsed. INVALID_ARGUMENT: it is
// no message of this type. `message` is cleared first.
absl::Status ParseBounded(const grpc::ByteBuffer& bytes, const MessageBounds& bounds,
                          google::protobuf::Message* message);

}  // namespace muster
