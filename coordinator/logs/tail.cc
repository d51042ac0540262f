#include "coordinator/logs/tail.h"

#include <absl/container/flat_hash_set.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "common/io/log_frame.h"

namespace muster {
namespace {

// No frame is longer, so a window of this many bytes has the start of one.
constexpr uint64_t kLongestFrame = kFrameHeaderBytes + kMaxFramePayloadBytes;

// Bytes of the magic number, as they lie in the file.
std::string_view MagicBytes() {
  static const std::array<char, kFrameHeaderBytes> header = EncodeFrameHeader(FrameHeader{});
  return {header.data(), 4};
}

// Offset in `window` of the first header, with a valid checksum, whose frame is followed by another
// one or ends exactly at, or beyond, the end of the window. The second condition tells a frame from
// output that looks like one, a copied frame file for example.
std::optional<size_t> FirstFrame(std::string_view window) {
  // Headers of chains that broke: a chain that meets one breaks too. Keeps the work linear.
  absl::flat_hash_set<size_t> broken;
  size_t at = 0;
  while ((at = window.find(MagicBytes(), at)) != std::string_view::npos) {
    size_t next = at;
    bool chain = true;
    std::vector<size_t> links;
    while (chain && window.size() - next >= kFrameHeaderBytes) {
      const std::optional<FrameHeader> header = DecodeFrameHeader(window.data() + next);
      chain = header.has_value() && !broken.contains(next);
      links.push_back(next);
      if (chain) next += std::min(kFrameHeaderBytes + header->payload_bytes, window.size() - next);
    }
    if (chain && next > at) return at;
    broken.insert(links.begin(), links.end());
    ++at;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<uint64_t> FindTailStart(uint64_t size, uint64_t tail_bytes, const ReadAt& read) {
  if (tail_bytes >= size) return 0;
  const uint64_t target = size - tail_bytes;
  // From a place where a frame begins for certain within one frame length, walk to the target.
  const uint64_t begin = target > kLongestFrame ? target - kLongestFrame : 0;
  absl::StatusOr<std::string> window =
      read(begin, static_cast<size_t>(target - begin) + 2 * static_cast<size_t>(kLongestFrame));
  if (!window.ok()) return window.status();
  const std::optional<size_t> first = begin == 0 ? std::optional<size_t>(0) : FirstFrame(*window);
  if (!first.has_value()) return 0;
  uint64_t frame = begin + *first;
  uint64_t last = frame;
  while (frame < target && frame - begin + kFrameHeaderBytes <= window->size()) {
    const std::optional<FrameHeader> header = DecodeFrameHeader(window->data() + (frame - begin));
    if (!header.has_value()) break;
    last = frame;
    frame += kFrameHeaderBytes + header->payload_bytes;
  }
  // Long frames: better too much than next to nothing.
  const bool enough = frame >= target && frame < size && size - frame >= tail_bytes / 2;
  return enough ? frame : last;
}

}  // namespace muster
