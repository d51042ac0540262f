// The frames of a rank's log file. A log is one append-only sequence of frames, each one 24 bytes
// of header and up to 1 MiB of payload. This file encodes and decodes them; it does no I/O. Values
// may be used from any thread, a FrameReader by one thread at a time.
//
// Header, little endian:
//   u32 magic "MLOG"; u32 payload bytes; u8 kind; u8[3] zero; i64 time in ns since 1970 (wall clock
//   of the node); u32 CRC-32 of the 20 bytes before it.
// Payload:
//   stdout, stderr   what one read of the rank's pipe returned, cut anywhere
//   gap              u64 bytes of stdout, u64 bytes of stderr that were dropped here
//   hole             the same 16 bytes, then bytes without a meaning, zeros as a rule: frames that
//                    were dropped after they had been written
//   end              u64 bytes that the rank wrote, u64 bytes of those that were dropped, over all;
//   last
//                    frame of a complete log
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster {

enum class FrameKind : uint8_t { kStdout = 1, kStderr = 2, kGap = 3, kEnd = 4, kHole = 5 };

inline constexpr size_t kFrameHeaderBytes = 24;
inline constexpr size_t kMaxFramePayloadBytes = size_t{1} << 20;
// Payload of a gap and of an end frame, and beginning of that of a hole.
inline constexpr size_t kFrameCountersBytes = 16;

struct FrameHeader {
  FrameKind kind = FrameKind::kStdout;
  uint32_t payload_bytes = 0;
  int64_t time_ns = 0;
  friend bool operator==(const FrameHeader&, const FrameHeader&) = default;
};

// Bytes dropped at one point of a log.
struct FrameGap {
  uint64_t stdout_bytes = 0;
  uint64_t stderr_bytes = 0;
  friend bool operator==(const FrameGap&, const FrameGap&) = default;
};

// Totals of a complete log, both streams together.
struct FrameEnd {
  // What the rank wrote, dropped bytes included.
  uint64_t written_bytes = 0;
  uint64_t dropped_bytes = 0;
  friend bool operator==(const FrameEnd&, const FrameEnd&) = default;
};

// Encodes a header. `payload_bytes` must not exceed kMaxFramePayloadBytes.
std::array<char, kFrameHeaderBytes> EncodeFrameHeader(const FrameHeader& header);
// Decodes the kFrameHeaderBytes at `bytes`; nothing when magic, CRC, kind, padding or size are
// wrong.
std::optional<FrameHeader> DecodeFrameHeader(const char* bytes);

// Payloads of gap and end frames, and back; nothing when the size is wrong.
std::array<char, kFrameCountersBytes> EncodeFrameGap(const FrameGap& gap);
std::array<char, kFrameCountersBytes> EncodeFrameEnd(const FrameEnd& end);
std::optional<FrameGap> DecodeFrameGap(std::string_view payload);
std::optional<FrameEnd> DecodeFrameEnd(std::string_view payload);
// Payload of a hole; nothing when it is too short.
std::optional<FrameGap> DecodeFrameHole(std::string_view payload);

// Appends one whole frame to `out`.
void AppendFrame(std::string& out, FrameKind kind, int64_t time_ns, std::string_view payload);

// One decoded frame. `payload` points into the reader or into the bytes fed to it. That of a hole
// may lack the bytes without a meaning.
struct Frame {
  FrameKind kind = FrameKind::kStdout;
  int64_t time_ns = 0;
  std::string_view payload;
};

// What a gap or a hole says; nothing for other frames.
std::optional<FrameGap> DroppedBy(const Frame& frame);

// Decodes a log that arrives in chunks which are cut anywhere. Frames that lie within one chunk are
// not copied. Usage:
//   reader.Feed(chunk);
//   while (std::optional<Frame> frame = reader.Next()) { ... }
//   if (reader.corrupt()) ...
class FrameReader {
 public:
  // `start_offset`: position in the log of the first byte that will be fed; the start of a frame.
  explicit FrameReader(uint64_t start_offset = 0) : offset_(start_offset) {}

  // Adds bytes. They must stay valid until Next has returned nothing, which is also when the next
  // chunk should be fed: feeding earlier is correct but copies.
  void Feed(std::string_view bytes);

  // Adds up to `bytes` bytes that are 0 and returns how many: those that a hole still wants are
  // only counted. Then Next is to be called, and this again for the rest.
  uint64_t FeedZeros(uint64_t bytes);

  // The next whole frame, valid until the next call. Nothing: more bytes are needed, or the log is
  // corrupt. A partial frame is kept for the bytes that follow.
  std::optional<Frame> Next();

  // True from the moment on when something was met that is no frame, or bytes after an end frame.
  // The reader returns nothing any more; it never searches for a place to go on.
  bool corrupt() const { return corrupt_; }
  // True after the end frame.
  bool ended() const { return ended_; }
  // Position in the log of the first byte that no returned frame has covered: the start of a
  // partial or corrupt frame, else the end of what was fed.
  uint64_t offset() const { return offset_; }
  // Bytes of a partial frame that are held.
  size_t partial_bytes() const { return partial_.size() + padding_ + input_.size(); }

 private:
  bool FillPartial(size_t wanted);
  uint64_t SkipPadding(uint64_t bytes);
  std::optional<Frame> Accept(const FrameHeader& header, std::string_view payload);

  uint64_t offset_;
  bool corrupt_ = false;
  bool ended_ = false;
  // The frame in `partial_` was returned by the last Next.
  bool partial_returned_ = false;
  // Beginning of a frame whose bytes came in more than one chunk.
  std::string partial_;
  // Bytes of the same frame, a hole, that were counted only.
  size_t padding_ = 0;
  // What is left of the chunk.
  std::string_view input_;
  // Holds `input_` when chunks were fed faster than frames were taken.
  std::string undrained_;
};

}  // namespace muster
