#include "agent/shim/log_segments.h"

#include <gtest/gtest.h>

#include <optional>

namespace muster::shim {
namespace {

// Adds frames one behind the other.
class Frames {
 public:
  explicit Frames(uint64_t segment_bytes) { segments.SetSegmentBytes(segment_bytes); }
  void Add(uint32_t bytes) {
    segments.Add({.begin = end_, .bytes = bytes, .stdout_bytes = bytes - 24, .time_ns = ++time_});
    end_ += bytes;
  }

  LogSegments segments;

 private:
  uint64_t end_ = 0;
  int64_t time_ = 0;
};

TEST(LogSegments, HoldWholeFramesUpToTheirLength) {
  Frames frames(1000);
  for (int i = 0; i < 25; ++i) frames.Add(100);
  EXPECT_EQ(frames.segments.size(), 3u);
  const std::optional<LogSegment> oldest = frames.segments.TakeOldest(false);
  ASSERT_TRUE(oldest.has_value());
  EXPECT_EQ(oldest->begin, 0u);
  EXPECT_EQ(oldest->bytes, 1000u);
  EXPECT_EQ(oldest->stdout_bytes, 760u);
  EXPECT_EQ(oldest->time_ns, 10);
  EXPECT_EQ(frames.segments.TakeOldest(false)->begin, 1000u);
  EXPECT_FALSE(frames.segments.TakeOldest(false).has_value()) << "the last one grows";
  EXPECT_EQ(frames.segments.TakeOldest(true)->bytes, 500u);
  frames.Add(100);
  EXPECT_EQ(frames.segments.TakeOldest(true)->begin, 2500u);
}

TEST(LogSegments, WhatIsProtectedIsForgotten) {
  Frames frames(100);
  for (int i = 0; i < 10; ++i) frames.Add(100);
  frames.segments.Forget(201);
  EXPECT_EQ(frames.segments.TakeOldest(false)->begin, 300u);
  frames.segments.Forget(5000);
  EXPECT_EQ(frames.segments.size(), 0u);
  EXPECT_FALSE(frames.segments.TakeOldest(true).has_value());
}

TEST(LogSegments, NoneIsTooShortOrTooLongForAHole) {
  Frames frames(0);
  frames.Add(25);
  frames.Add(25);
  frames.Add(25);
  EXPECT_EQ(frames.segments.TakeOldest(true)->bytes, 50u);
  EXPECT_FALSE(frames.segments.TakeOldest(true).has_value());
  frames.Add(LogSegments::kMostBytes - 25);
  EXPECT_EQ(frames.segments.TakeOldest(true)->bytes, LogSegments::kMostBytes);
  // Too short, and together with the next too long: it stays in the file.
  frames.Add(25);
  frames.Add(LogSegments::kMostBytes);
  EXPECT_EQ(frames.segments.TakeOldest(true)->bytes, LogSegments::kMostBytes);
  EXPECT_EQ(frames.segments.size(), 0u);
}

TEST(LogSegments, CountStreamsAndGapsApart) {
  LogSegments segments;
  segments.Add({.begin = 0, .bytes = 34, .stdout_bytes = 10, .time_ns = 1});
  segments.Add({.begin = 34, .bytes = 40, .gap = {100, 200}, .time_ns = 2});
  segments.Add({.begin = 74, .bytes = 44, .stderr_bytes = 20, .time_ns = 3});
  const LogSegment all = *segments.TakeOldest(true);
  EXPECT_EQ(all.bytes, 118u);
  EXPECT_EQ(all.stdout_bytes, 10u);
  EXPECT_EQ(all.stderr_bytes, 20u);
  EXPECT_EQ(all.gap, (FrameGap{100, 200}));
  EXPECT_EQ(all.time_ns, 3);
}

TEST(LogHoles, CountWhatTheyHaveGivenBack) {
  LogHoles holes;
  EXPECT_FALSE(holes.any());
  holes.Add({.begin = 1000, .bytes = 500});
  holes.Add({.begin = 1500, .bytes = 500});
  holes.Add({.begin = 3000, .bytes = 140});
  EXPECT_EQ(holes.SavedBehind(0), 920u + 100);
  EXPECT_EQ(holes.SavedBehind(1000), 920u + 100);
  EXPECT_EQ(holes.SavedBehind(1600), 320u + 100) << "as if no header was in front";
  EXPECT_EQ(holes.SavedBehind(1990), 100u);
  EXPECT_EQ(holes.SavedBehind(2500), 100u);
  EXPECT_EQ(holes.SavedBehind(4000), 0u);
  holes.Forget(1999);
  EXPECT_EQ(holes.SavedBehind(1999), 100u);
  holes.Forget(2000);
  EXPECT_EQ(holes.SavedBehind(2000), 100u);
  holes.Forget(3140);
  EXPECT_EQ(holes.SavedBehind(3140), 0u);
  EXPECT_TRUE(holes.any());
}

}  // namespace
}  // namespace muster::shim
