#include "coordinator/logs/tail.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "common/io/log_frame.h"

namespace muster {
namespace {

struct LogFile {
  std::string bytes;
  std::vector<uint64_t> starts;

  void Add(size_t payload_bytes, char fill = 'x') { AddPayload(std::string(payload_bytes, fill)); }
  void AddPayload(const std::string& payload) {
    starts.push_back(bytes.size());
    AppendFrame(bytes, FrameKind::kStdout, 1, payload);
  }
  void AddHole(size_t payload_bytes) {
    starts.push_back(bytes.size());
    AppendFrame(bytes, FrameKind::kHole, 1, std::string(payload_bytes, '\0'));
  }
  uint64_t Tail(uint64_t tail_bytes) const {
    const absl::StatusOr<uint64_t> start =
        FindTailStart(bytes.size(), tail_bytes, [&](uint64_t offset, size_t max_bytes) {
          return absl::StatusOr<std::string>(bytes.substr(offset, max_bytes));
        });
    EXPECT_TRUE(start.ok());
    return start.value_or(~uint64_t{0});
  }
  // First frame at or behind size - tail_bytes, else the last.
  uint64_t Expected(uint64_t tail_bytes) const {
    if (tail_bytes >= bytes.size()) return 0;
    uint64_t last = 0;
    for (const uint64_t start : starts) {
      if (start >= bytes.size() - tail_bytes) {
        return start < bytes.size() && bytes.size() - start >= tail_bytes / 2 ? start : last;
      }
      last = start;
    }
    return last;
  }
};

TEST(FindTailStart, BeginsAtAFrame) {
  LogFile log;
  for (size_t i = 0; i < 50; ++i) log.Add(i * 7);
  for (uint64_t tail = 0; tail < log.bytes.size() + 10; ++tail) {
    ASSERT_EQ(log.Tail(tail), log.Expected(tail)) << tail;
  }
}

TEST(FindTailStart, FindsFramesInALongFile) {
  LogFile log;
  for (size_t i = 0; i < 400; ++i) log.Add((i * 7919) % 60000);
  log.Add(kMaxFramePayloadBytes);
  log.AddHole(kMaxFramePayloadBytes);
  log.AddHole(kFrameCountersBytes);
  log.Add(10);
  log.Add(kMaxFramePayloadBytes);
  for (const uint64_t tail :
       {1ull, 100ull, 60000ull, 1048600ull, 1100000ull, 3000000ull, 9000000ull}) {
    EXPECT_EQ(log.Tail(tail), log.Expected(tail)) << tail;
  }
}

TEST(FindTailStart, IsNotFooledByOutputThatLooksLikeFrames) {
  LogFile inner;
  for (int i = 0; i < 2000; ++i) inner.Add(40, 'i');
  LogFile log;
  // Two payloads that are frame files themselves, behind enough bytes that the search must look for
  // a place to begin.
  for (int i = 0; i < 3; ++i) log.Add(900000);
  log.AddPayload(inner.bytes);
  log.Add(1000);
  log.AddPayload(inner.bytes.substr(5));
  log.Add(300000);
  for (uint64_t tail = 1000; tail < 600000; tail += 4999) {
    ASSERT_EQ(log.Tail(tail), log.Expected(tail)) << tail;
  }
}

TEST(FindTailStart, ToleratesAFrameThatIsStillArriving) {
  LogFile log;
  for (int i = 0; i < 10; ++i) log.Add(100);
  const std::string whole = log.bytes;
  for (size_t cut = 1; cut < 124; ++cut) {
    log.bytes = whole.substr(0, whole.size() - cut);
    EXPECT_EQ(log.Tail(300), log.Expected(300)) << cut;
  }
}

TEST(FindTailStart, BeginsAtTheStartOfWhatIsNoFrameFile) {
  LogFile log;
  log.bytes = std::string(5000000, 'z');
  EXPECT_EQ(log.Tail(10), 0u);
  log.bytes.clear();
  EXPECT_EQ(log.Tail(10), 0u);
}

TEST(FindTailStart, StaysQuickOnHostileOutput) {
  // Headers with valid checksums everywhere, whose chains never end well.
  std::string header;
  AppendFrame(header, FrameKind::kStdout, 1, "");
  std::string payload;
  while (payload.size() + 24 < 1000000) payload += header;
  payload += "X";
  LogFile log;
  for (int i = 0; i < 5; ++i) log.AddPayload(payload);
  EXPECT_EQ(log.Tail(1200000), log.Expected(1200000));
}

TEST(FindTailStart, PassesReadErrorsOn) {
  EXPECT_EQ(FindTailStart(100, 10,
                          [](uint64_t, size_t) {
                            return absl::StatusOr<std::string>(absl::InternalError("disk"));
                          })
                .status()
                .code(),
            absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace muster
