#include "common/io/log_frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "common/io/crc32.h"

namespace muster {
namespace {

struct OwnedFrame {
  FrameKind kind;
  int64_t time_ns;
  std::string payload;
  friend bool operator==(const OwnedFrame&, const OwnedFrame&) = default;
};

std::string Encode(const std::vector<OwnedFrame>& frames) {
  std::string bytes;
  for (const OwnedFrame& frame : frames) {
    AppendFrame(bytes, frame.kind, frame.time_ns, frame.payload);
  }
  return bytes;
}

std::vector<OwnedFrame> Take(FrameReader& reader) {
  std::vector<OwnedFrame> frames;
  while (const auto frame = reader.Next()) {
    frames.push_back({frame->kind, frame->time_ns, std::string(frame->payload)});
  }
  return frames;
}

std::string CountersPayload(uint64_t a, uint64_t b) {
  const auto bytes = EncodeFrameGap({a, b});
  return {bytes.data(), bytes.size()};
}

std::vector<OwnedFrame> SampleLog() {
  return {{FrameKind::kStdout, 1, "hello\n"},
          {FrameKind::kStderr, -5, std::string("\0\xff\r", 3)},
          {FrameKind::kStdout, 1'700'000'000'123'456'789, ""},
          {FrameKind::kGap, 3, CountersPayload(7, 8)},
          {FrameKind::kHole, 3, CountersPayload(9, 10)},
          {FrameKind::kHole, 3, CountersPayload(9, 10) + std::string(70'000, '\0')},
          {FrameKind::kStdout, 4, std::string(100'000, 'x')},
          {FrameKind::kEnd, 5, CountersPayload(100'024, 15)}};
}

TEST(Crc32, HasTheValueOfTheStandard) {
  EXPECT_EQ(Crc32("123456789"), 0xCBF43926u);
  EXPECT_EQ(Crc32(""), 0u);
  EXPECT_EQ(Crc32("6789", Crc32("12345")), 0xCBF43926u);
}

TEST(FrameHeader, HasTheLayoutOfTheFormat) {
  const auto bytes = EncodeFrameHeader({FrameKind::kStderr, 0x0102, 0x0807060504030201});
  EXPECT_EQ(
      std::string(bytes.data(), 20),
      std::string("MLOG\x02\x01\x00\x00\x02\x00\x00\x00\x01\x02\x03\x04\x05\x06\x07\x08", 20));
  EXPECT_EQ(DecodeFrameHeader(bytes.data()),
            (FrameHeader{FrameKind::kStderr, 0x0102, 0x0807060504030201}));
}

TEST(FrameHeader, AnyChangedBitIsNoticed) {
  const auto good = EncodeFrameHeader({FrameKind::kStdout, 77, 123456789});
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    auto bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(DecodeFrameHeader(bad.data()).has_value()) << "bit " << bit;
  }
}

TEST(FrameHeader, RefusesWhatNoWriterWrites) {
  for (const FrameHeader& header :
       {FrameHeader{FrameKind::kStdout, kMaxFramePayloadBytes + 1, 0},
        FrameHeader{FrameKind::kGap, 15, 0}, FrameHeader{FrameKind::kEnd, 17, 0},
        FrameHeader{static_cast<FrameKind>(0), 1, 0}, FrameHeader{FrameKind::kHole, 15, 0},
        FrameHeader{FrameKind::kHole, kMaxFramePayloadBytes + 1, 0},
        FrameHeader{static_cast<FrameKind>(6), 16, 0}}) {
    EXPECT_FALSE(DecodeFrameHeader(EncodeFrameHeader(header).data()).has_value());
  }
}

TEST(FrameHeader, AHoleIsAsLongAsItsPadding) {
  for (const uint32_t bytes : {uint32_t{kFrameCountersBytes}, uint32_t{kMaxFramePayloadBytes}}) {
    const FrameHeader header{FrameKind::kHole, bytes, 7};
    EXPECT_EQ(DecodeFrameHeader(EncodeFrameHeader(header).data()), header);
  }
}

TEST(FramePayload, GapsAndHolesTellWhatWasDropped) {
  const std::string counters = CountersPayload(7, 8);
  EXPECT_EQ(DroppedBy({FrameKind::kGap, 1, counters}), (FrameGap{7, 8}));
  EXPECT_EQ(DroppedBy({FrameKind::kHole, 1, counters}), (FrameGap{7, 8}));
  EXPECT_EQ(DroppedBy({FrameKind::kHole, 1, counters + "whatever"}), (FrameGap{7, 8}));
  EXPECT_FALSE(DroppedBy({FrameKind::kHole, 1, counters.substr(1)}));
  EXPECT_FALSE(DroppedBy({FrameKind::kEnd, 1, counters}));
  EXPECT_FALSE(DroppedBy({FrameKind::kStdout, 1, counters}));
}

TEST(FrameReader, ReadsAWholeLog) {
  const std::string bytes = Encode(SampleLog());
  FrameReader reader;
  reader.Feed(bytes);
  EXPECT_EQ(Take(reader), SampleLog());
  EXPECT_TRUE(reader.ended());
  EXPECT_FALSE(reader.corrupt());
  EXPECT_EQ(reader.offset(), bytes.size());
  EXPECT_EQ(reader.partial_bytes(), 0u);
}

TEST(FrameReader, ReadsALogCutAnywhere) {
  const std::string bytes = Encode(SampleLog());
  std::mt19937 random(7);
  for (int round = 0; round < 100; ++round) {
    FrameReader reader;
    std::vector<OwnedFrame> frames;
    const size_t most = round < 4 ? 3 : 1 + random() % 60'000;
    for (size_t at = 0; at < bytes.size();) {
      const std::string chunk = bytes.substr(at, 1 + random() % most);
      reader.Feed(chunk);
      for (OwnedFrame& frame : Take(reader)) frames.push_back(std::move(frame));
      at += chunk.size();
      EXPECT_LE(reader.offset(), at);
      EXPECT_EQ(reader.offset() + reader.partial_bytes(), at);
    }
    ASSERT_EQ(frames, SampleLog());
  }
}

TEST(FrameReader, KeepsAPartialFrameForLater) {
  const std::string bytes = Encode({{FrameKind::kStdout, 1, "hello"}});
  FrameReader reader(1000);
  reader.Feed(std::string_view(bytes).substr(0, 26));
  EXPECT_FALSE(reader.Next().has_value());
  EXPECT_FALSE(reader.corrupt());
  EXPECT_EQ(reader.offset(), 1000u);
  reader.Feed(std::string_view(bytes).substr(26));
  ASSERT_TRUE(reader.Next().has_value());
  EXPECT_EQ(reader.offset(), 1000u + bytes.size());
}

TEST(FrameReader, FeedingBeforeTheFramesAreTakenLosesNothing) {
  const std::string bytes = Encode(SampleLog());
  FrameReader reader;
  for (size_t at = 0; at < bytes.size(); at += 777) {
    reader.Feed(std::string_view(bytes).substr(at, 777));
  }
  EXPECT_EQ(Take(reader), SampleLog());
}

TEST(FrameReader, StopsForGoodAtCorruption) {
  const std::string first = Encode({{FrameKind::kStdout, 1, "good"}});
  std::string bytes = first + Encode({{FrameKind::kStdout, 2, "bad"}}) + first;
  bytes[first.size() + 4] = 9;
  FrameReader reader;
  reader.Feed(bytes);
  EXPECT_EQ(Take(reader).size(), 1u);
  EXPECT_TRUE(reader.corrupt());
  EXPECT_EQ(reader.offset(), first.size());
  reader.Feed(first);
  EXPECT_FALSE(reader.Next().has_value());
}

TEST(FrameReader, ZerosOfAPunchedHoleAreCorruption) {
  FrameReader reader;
  const std::string zeros(100, '\0');
  reader.Feed(zeros);
  EXPECT_FALSE(reader.Next().has_value());
  EXPECT_TRUE(reader.corrupt());
}

// The same frames, whatever part of the log comes as a number of zeros.
TEST(FrameReader, CountsThePaddingOfHoles) {
  const std::vector<OwnedFrame> frames = {
      {FrameKind::kStdout, 1, std::string(200'000, '\0') + "text"},
      {FrameKind::kHole, 2, CountersPayload(9, 10) + std::string(700'000, '\0')},
      {FrameKind::kHole, 3, CountersPayload(0, 0) + std::string(30, '\0')},
      {FrameKind::kStderr, 4, "after"}};
  const std::string bytes = Encode(frames);
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    FrameReader reader;
    std::vector<OwnedFrame> taken;
    const auto take = [&] {
      for (OwnedFrame& frame : Take(reader)) taken.push_back(std::move(frame));
    };
    for (size_t at = 0; at < bytes.size();) {
      const size_t zeros = std::min(bytes.find_first_not_of('\0', at), bytes.size()) - at;
      if (zeros > 0 && random() % 2 == 0) {
        for (uint64_t left = 1 + random() % zeros; left > 0;) {
          const uint64_t fed = reader.FeedZeros(left);
          ASSERT_GT(fed, 0u);
          at += fed;
          left -= fed;
          take();
        }
      } else {
        const std::string piece = bytes.substr(at, 1 + random() % 100'000);
        reader.Feed(piece);
        take();
        at += piece.size();
      }
      ASSERT_EQ(reader.offset() + reader.partial_bytes(), at);
    }
    ASSERT_EQ(taken.size(), frames.size());
    for (size_t i = 0; i < frames.size(); ++i) {
      if (frames[i].kind == FrameKind::kHole) {
        EXPECT_EQ(DecodeFrameHole(taken[i].payload), DecodeFrameHole(frames[i].payload));
      } else {
        EXPECT_TRUE(taken[i] == frames[i]);
      }
    }
  }
}

TEST(FrameReader, MoreZerosThanAHoleWantsAreCorruption) {
  const std::string hole =
      Encode({{FrameKind::kHole, 1, CountersPayload(1, 2) + std::string(50, '\0')}});
  FrameReader reader;
  reader.Feed(std::string_view(hole).substr(0, hole.size() - 50));
  EXPECT_FALSE(reader.Next().has_value());
  EXPECT_EQ(reader.FeedZeros(1000), 50u);
  EXPECT_TRUE(reader.Next().has_value());
  EXPECT_FALSE(reader.Next().has_value());
  EXPECT_EQ(reader.FeedZeros(950), 950u);
  EXPECT_FALSE(reader.Next().has_value());
  EXPECT_TRUE(reader.corrupt());
  EXPECT_EQ(reader.FeedZeros(uint64_t{1} << 60), uint64_t{1} << 60) << "no time is lost with it";
}

TEST(FrameReader, NothingFollowsTheEnd) {
  std::string bytes = Encode(SampleLog());
  FrameReader reader;
  reader.Feed(bytes);
  (void)Take(reader);
  reader.Feed("x");
  EXPECT_FALSE(reader.Next().has_value());
  EXPECT_TRUE(reader.corrupt());
}

TEST(FrameCounters, RoundTrip) {
  const auto gap = EncodeFrameGap({1, UINT64_MAX});
  EXPECT_EQ(DecodeFrameGap({gap.data(), gap.size()}), (FrameGap{1, UINT64_MAX}));
  const auto end = EncodeFrameEnd({3, 2});
  EXPECT_EQ(DecodeFrameEnd({end.data(), end.size()}), (FrameEnd{3, 2}));
  EXPECT_FALSE(DecodeFrameGap("short").has_value());
  EXPECT_FALSE(DecodeFrameEnd("short").has_value());
}

}  // namespace
}  // namespace muster
