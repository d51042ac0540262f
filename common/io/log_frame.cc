#include "common/io/log_frame.h"

#include <algorithm>
#include <utility>

#include "common/io/crc32.h"
#include "common/io/little_endian.h"

namespace muster {
namespace {

constexpr uint32_t kMagic = 0x474F4C4D;  // "MLOG"
constexpr size_t kCrcOffset = 20;

std::array<char, kFrameCountersBytes> EncodeCounters(uint64_t first, uint64_t second) {
  std::array<char, kFrameCountersBytes> bytes;
  StoreLittleEndian(bytes.data(), first);
  StoreLittleEndian(bytes.data() + 8, second);
  return bytes;
}

}  // namespace

std::array<char, kFrameHeaderBytes> EncodeFrameHeader(const FrameHeader& header) {
  std::array<char, kFrameHeaderBytes> bytes = {};
  StoreLittleEndian(bytes.data(), kMagic);
  StoreLittleEndian(bytes.data() + 4, header.payload_bytes);
  bytes[8] = static_cast<char>(header.kind);
  StoreLittleEndian(bytes.data() + 12, header.time_ns);
  StoreLittleEndian(bytes.data() + kCrcOffset, Crc32(std::string_view(bytes.data(), kCrcOffset)));
  return bytes;
}

std::optional<FrameHeader> DecodeFrameHeader(const char* bytes) {
  if (LoadLittleEndian<uint32_t>(bytes) != kMagic) return std::nullopt;
  if (LoadLittleEndian<uint32_t>(bytes + kCrcOffset) !=
      Crc32(std::string_view(bytes, kCrcOffset))) {
    return std::nullopt;
  }
  FrameHeader header;
  header.payload_bytes = LoadLittleEndian<uint32_t>(bytes + 4);
  header.time_ns = LoadLittleEndian<int64_t>(bytes + 12);
  const auto kind = static_cast<uint8_t>(bytes[8]);
  if (kind < static_cast<uint8_t>(FrameKind::kStdout) ||
      kind > static_cast<uint8_t>(FrameKind::kHole)) {
    return std::nullopt;
  }
  header.kind = static_cast<FrameKind>(kind);
  if (bytes[9] != 0 || bytes[10] != 0 || bytes[11] != 0) return std::nullopt;
  const bool counters = header.kind == FrameKind::kGap || header.kind == FrameKind::kEnd;
  if (counters ? header.payload_bytes != kFrameCountersBytes
               : header.payload_bytes > kMaxFramePayloadBytes) {
    return std::nullopt;
  }
  if (header.kind == FrameKind::kHole && header.payload_bytes < kFrameCountersBytes) {
    return std::nullopt;
  }
  return header;
}

std::array<char, kFrameCountersBytes> EncodeFrameGap(const FrameGap& gap) {
  return EncodeCounters(gap.stdout_bytes, gap.stderr_bytes);
}

std::array<char, kFrameCountersBytes> EncodeFrameEnd(const FrameEnd& end) {
  return EncodeCounters(end.written_bytes, end.dropped_bytes);
}

std::optional<FrameGap> DecodeFrameGap(std::string_view payload) {
  if (payload.size() != kFrameCountersBytes) return std::nullopt;
  return FrameGap{LoadLittleEndian<uint64_t>(payload.data()),
                  LoadLittleEndian<uint64_t>(payload.data() + 8)};
}

std::optional<FrameEnd> DecodeFrameEnd(std::string_view payload) {
  if (payload.size() != kFrameCountersBytes) return std::nullopt;
  return FrameEnd{LoadLittleEndian<uint64_t>(payload.data()),
                  LoadLittleEndian<uint64_t>(payload.data() + 8)};
}

std::optional<FrameGap> DecodeFrameHole(std::string_view payload) {
  return DecodeFrameGap(payload.substr(0, kFrameCountersBytes));
}

std::optional<FrameGap> DroppedBy(const Frame& frame) {
  if (frame.kind == FrameKind::kGap) return DecodeFrameGap(frame.payload);
  if (frame.kind == FrameKind::kHole) return DecodeFrameHole(frame.payload);
  return std::nullopt;
}

void AppendFrame(std::string& out, FrameKind kind, int64_t time_ns, std::string_view payload) {
  const auto header = EncodeFrameHeader({kind, static_cast<uint32_t>(payload.size()), time_ns});
  out.append(header.data(), header.size());
  out.append(payload);
}

void FrameReader::Feed(std::string_view bytes) {
  if (corrupt_) return;
  if (input_.empty()) {
    input_ = bytes;
    return;
  }
  // The caller did not drain the reader: keep the bytes rather than lose them.
  std::string joined(input_);
  joined.append(bytes);
  undrained_ = std::move(joined);
  input_ = undrained_;
}

uint64_t FrameReader::FeedZeros(uint64_t bytes) {
  static constexpr char kZeros[size_t{64} << 10] = {};
  if (corrupt_) return bytes;
  if (const uint64_t skipped = SkipPadding(bytes); skipped > 0) return skipped;
  const uint64_t fed = std::min<uint64_t>(bytes, sizeof kZeros);
  Feed({kZeros, fed});
  return fed;
}

uint64_t FrameReader::SkipPadding(uint64_t bytes) {
  if (partial_returned_ || !input_.empty()) return 0;
  if (partial_.size() < kFrameHeaderBytes + kFrameCountersBytes) return 0;
  const std::optional<FrameHeader> header = DecodeFrameHeader(partial_.data());
  if (!header || header->kind != FrameKind::kHole) return 0;
  const size_t wanted = kFrameHeaderBytes + header->payload_bytes - partial_.size() - padding_;
  const uint64_t skipped = std::min<uint64_t>(bytes, wanted);
  padding_ += skipped;
  return skipped;
}

std::optional<Frame> FrameReader::Next() {
  if (partial_returned_) {
    partial_.clear();
    padding_ = 0;
    partial_returned_ = false;
  }
  if (corrupt_) return std::nullopt;
  if (ended_) {
    if (!input_.empty() || !partial_.empty()) corrupt_ = true;
    return std::nullopt;
  }
  if (partial_.empty()) {
    if (input_.size() >= kFrameHeaderBytes) {
      const std::optional<FrameHeader> header = DecodeFrameHeader(input_.data());
      if (!header) {
        corrupt_ = true;
        return std::nullopt;
      }
      const size_t frame_bytes = kFrameHeaderBytes + header->payload_bytes;
      if (input_.size() >= frame_bytes) {
        const std::string_view payload = input_.substr(kFrameHeaderBytes, header->payload_bytes);
        input_.remove_prefix(frame_bytes);
        return Accept(*header, payload);
      }
    }
    if (input_.empty()) return std::nullopt;
  }
  if (!FillPartial(kFrameHeaderBytes)) return std::nullopt;
  const std::optional<FrameHeader> header = DecodeFrameHeader(partial_.data());
  if (!header) {
    corrupt_ = true;
    return std::nullopt;
  }
  if (!FillPartial(kFrameHeaderBytes + header->payload_bytes - padding_)) return std::nullopt;
  partial_returned_ = true;
  return Accept(*header, std::string_view(partial_).substr(kFrameHeaderBytes));
}

// Moves input to `partial_` until that has `wanted` bytes; false when the input does not suffice.
bool FrameReader::FillPartial(size_t wanted) {
  if (partial_.size() < wanted) {
    const size_t take = std::min(wanted - partial_.size(), input_.size());
    partial_.append(input_.substr(0, take));
    input_.remove_prefix(take);
  }
  return partial_.size() >= wanted;
}

std::optional<Frame> FrameReader::Accept(const FrameHeader& header, std::string_view payload) {
  offset_ += kFrameHeaderBytes + header.payload_bytes;
  if (header.kind == FrameKind::kEnd) ended_ = true;
  return Frame{header.kind, header.time_ns, payload};
}

}  // namespace muster
