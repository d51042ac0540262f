// Pieces of frame files for tests of what reads them. Values only.
#pragma once

#include <string>
#include <string_view>

#include "common/io/log_frame.h"
#include "muster/v1/job.pb.h"

namespace muster::testing {

inline std::string OutFrame(std::string_view text, int64_t time_ns = 1) {
  std::string bytes;
  AppendFrame(bytes, FrameKind::kStdout, time_ns, text);
  return bytes;
}

inline std::string ErrFrame(std::string_view text, int64_t time_ns = 1) {
  std::string bytes;
  AppendFrame(bytes, FrameKind::kStderr, time_ns, text);
  return bytes;
}

inline std::string GapFrame(uint64_t out_bytes, uint64_t err_bytes) {
  const auto payload = EncodeFrameGap({out_bytes, err_bytes});
  std::string bytes;
  AppendFrame(bytes, FrameKind::kGap, 1, {payload.data(), payload.size()});
  return bytes;
}

inline std::string HoleFrame(uint64_t out_bytes, uint64_t err_bytes, size_t padding) {
  const auto counters = EncodeFrameGap({out_bytes, err_bytes});
  std::string bytes;
  AppendFrame(bytes, FrameKind::kHole, 1,
              std::string(counters.data(), counters.size()) + std::string(padding, '\0'));
  return bytes;
}

inline v1::ReadLogsResponse Piece(uint32_t rank, uint64_t offset, std::string data,
                                  bool end = false) {
  v1::ReadLogsResponse piece;
  piece.set_rank(rank);
  piece.set_attempt(1);
  piece.set_offset(offset);
  piece.set_data(std::move(data));
  piece.set_end(end);
  return piece;
}

}  // namespace muster::testing
