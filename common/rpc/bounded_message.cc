#include "common/rpc/bounded_message.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <cstdint>

namespace muster {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::io::CodedInputStream;

// A message with its place in a list and what the heap adds; a string likewise; a number in a list.
constexpr size_t kMessageBytes = 192;
constexpr size_t kStringBytes = 64;
constexpr size_t kNumberBytes = 16;
// As protobuf itself has it.
constexpr int kMostDepth = 100;

// The types of the low three bits of a tag.
enum WireType { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

class Estimate {
 public:
  explicit Estimate(size_t most) : left_(most) {}

  bool exceeded() const { return exceeded_; }

  // False when the bytes are no message, or too many.
  bool Add(CodedInputStream& in, const Descriptor* type, int depth) {
    if (depth > kMostDepth) return false;
    while (const uint32_t tag = in.ReadTag()) {
      const FieldDescriptor* field =
          type == nullptr ? nullptr : type->FindFieldByNumber(static_cast<int>(tag >> 3));
      if (!AddField(in, tag & 7, field, depth)) return false;
    }
    return in.ConsumedEntireMessage();
  }

 private:
  bool AddField(CodedInputStream& in, uint32_t wire_type, const FieldDescriptor* field, int depth) {
    uint64_t number = 0;
    uint32_t length = 0;
    switch (wire_type) {
      case kVarint:
        return Charge(kNumberBytes) && in.ReadVarint64(&number);
      case kFixed64:
        return Charge(kNumberBytes) && in.Skip(8);
      case kFixed32:
        return Charge(kNumberBytes) && in.Skip(4);
      case kLengthDelimited:
        break;
      default:
        return false;  // Groups: nobody here sends them.
    }
    if (!in.ReadVarint32(&length) || length > INT32_MAX) return false;
    const int bytes = static_cast<int>(length);
    if (field != nullptr && field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (!Charge(kMessageBytes)) return false;
      const CodedInputStream::Limit limit = in.PushLimit(bytes);
      if (!Add(in, field->message_type(), depth + 1)) return false;
      in.PopLimit(limit);
      return true;
    }
    // Numbers in one piece, of one byte each at least.
    const bool packed = field != nullptr && field->is_packable();
    return Charge(kStringBytes + (packed ? size_t{length} * sizeof(uint64_t) : length)) &&
           in.Skip(bytes);
  }

  bool Charge(size_t bytes) {
    if (bytes > left_) {
      exceeded_ = true;
      return false;
    }
    left_ -= bytes;
    return true;
  }

  size_t left_;
  bool exceeded_ = false;
};

}  // namespace

absl::Status ParseBounded(const grpc::ByteBuffer& bytes, const MessageBounds& bounds,
                          google::protobuf::Message* message) {
  message->Clear();
  const std::string& type = message->GetDescriptor()->name();
  const auto too_large = [&] {
    return absl::ResourceExhaustedError(fmt::format(
        "the message ({}) is larger than this peer may send: {} bytes, at most {}, and {} "
        "in memory",
        type, bytes.Length(), bounds.wire_bytes, bounds.memory_bytes));
  };
  if (bytes.Length() > bounds.wire_bytes) return too_large();
  // The readers change nothing in it but what it shares with others.
  grpc::ByteBuffer once = bytes;
  grpc::ByteBuffer twice = bytes;
  {
    grpc::ProtoBufferReader reader(&once);
    CodedInputStream in(&reader);
    Estimate estimate(bounds.memory_bytes);
    if (!estimate.Add(in, message->GetDescriptor(), 0)) {
      if (estimate.exceeded()) return too_large();
      return absl::InvalidArgumentError(fmt::format("the bytes are no {}", type));
    }
  }
  grpc::ProtoBufferReader reader(&twice);
  if (!reader.status().ok() || !message->ParseFromZeroCopyStream(&reader)) {
    message->Clear();
    return absl::InvalidArgumentError(fmt::format("the bytes are no {}", type));
  }
  return absl::OkStatus();
}

}  // namespace muster
