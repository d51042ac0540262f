#include "common/rpc/bounded_message.h"

#include <gmock/gmock.h>
#include <grpcpp/support/slice.h>
#include <gtest/gtest.h>

#include <string>

#include "common/rpc/limits.h"
#include "muster/v1/agent.pb.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

constexpr MessageBounds kBounds{.wire_bytes = kMaxAgentMessageBytes,
                                .memory_bytes = kMaxAgentMessageMemory};

grpc::ByteBuffer BufferOf(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

absl::StatusCode Parse(const std::string& bytes, v1::AgentMessage* message) {
  return ParseBounded(BufferOf(bytes), kBounds, message).code();
}

// An event batch of `count` events, each with `body`.
std::string Batch(size_t count, const std::string& body) {
  std::string events;
  for (size_t i = 0; i < count; ++i) {
    events += '\x0a';
    events += static_cast<char>(body.size());
    events += body;
  }
  std::string bytes = "\x1a";
  for (size_t length = events.size();; length >>= 7) {
    const bool last = length < 0x80;
    bytes += static_cast<char>((length & 0x7f) | (last ? 0 : 0x80));
    if (last) break;
  }
  return bytes + events;
}

TEST(ParseBounded, ParsesWhatAgentsSend) {
  v1::AgentMessage sent;
  for (int i = 0; i < 2000; ++i) {
    v1::AttemptReport& report = *sent.mutable_hello()->add_attempts();
    report.mutable_key()->set_job_id("j-0123456789");
    report.mutable_key()->set_attempt(3);
    report.set_generation(uint64_t{1} << 40);
  }
  for (uint32_t i = 0; i < 4096; ++i) sent.mutable_hello()->mutable_facts()->add_slots(i);
  v1::AgentMessage parsed;
  EXPECT_EQ(Parse(sent.SerializeAsString(), &parsed), absl::StatusCode::kOk);
  EXPECT_EQ(parsed.SerializeAsString(), sent.SerializeAsString());
  sent.Clear();
  for (int i = 0; i < 256; ++i) {
    v1::Event& event = *sent.mutable_events()->add_events();
    event.set_seq(i + 1);
    event.mutable_event_time()->set_seconds(1);
    event.mutable_key()->set_job_id("j");
    event.mutable_rank_lost()->set_reason(std::string(1024, 'x'));
  }
  EXPECT_EQ(Parse(sent.SerializeAsString(), &parsed), absl::StatusCode::kOk);
  EXPECT_EQ(parsed.events().events_size(), 256);
}

TEST(ParseBounded, RefusesWhatWouldTakeTooMuchMemory) {
  v1::AgentMessage parsed;
  EXPECT_EQ(Parse(Batch(1000, ""), &parsed), absl::StatusCode::kOk);
  EXPECT_EQ(parsed.events().events_size(), 1000);
  // Less than a megabyte on the wire each.
  EXPECT_EQ(Parse(Batch(400'000, ""), &parsed), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(parsed.has_events());
  // Empty strings: warnings of a Prepared.
  std::string warnings;
  for (int i = 0; i < 50; ++i) warnings += std::string("\x1a\x00", 2);
  const std::string prepared = std::string("\x52") + static_cast<char>(warnings.size()) + warnings;
  EXPECT_EQ(Parse(Batch(5000, prepared), &parsed), absl::StatusCode::kResourceExhausted);
  // Fields that nobody knows are kept by protobuf, each with a string of its own.
  std::string unknown;
  for (int i = 0; i < 400'000; ++i) unknown += std::string("\xfa\x01\x00", 3);
  EXPECT_EQ(Parse(unknown, &parsed), absl::StatusCode::kResourceExhausted);
}

TEST(ParseBounded, RefusesWhatIsTooLong) {
  v1::AgentMessage sent;
  sent.mutable_hello()->set_node_id(std::string(kMaxAgentMessageBytes, 'n'));
  v1::AgentMessage parsed;
  const absl::Status status = ParseBounded(BufferOf(sent.SerializeAsString()), kBounds, &parsed);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("AgentMessage"));
}

TEST(ParseBounded, RefusesWhatIsNoMessage) {
  v1::AgentMessage parsed;
  EXPECT_EQ(Parse("", &parsed), absl::StatusCode::kOk) << "an empty message";
  for (const std::string& bytes :
       {std::string("\x0a\x05x", 3), std::string("\xff\xff\xff\xff\xff\xff", 6),
        std::string("\x0b\x0c", 2), std::string("\0", 1), std::string("\x1a\x02\x0a\x05", 4)}) {
    EXPECT_EQ(Parse(bytes, &parsed), absl::StatusCode::kInvalidArgument);
  }
  // As deep as it likes: of a field that nobody knows nothing is looked into.
  std::string deep;
  for (int i = 0; i < 20'000; ++i) deep = "\x1b" + deep;
  EXPECT_EQ(Parse(deep, &parsed), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace muster
