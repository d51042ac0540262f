#include "coordinator/cli/log_demux.h"

namespace muster {

void LogDemux::TellHole(uint32_t rank, Source& source) {
  if (source.hole == FrameGap()) return;
  const auto payload = EncodeFrameGap(source.hole);
  source.hole = {};
  sink_.OnFrame(rank, {FrameKind::kGap, source.hole_time_ns,
                       std::string_view(payload.data(), payload.size())});
}

void LogDemux::Take(const v1::ReadLogsResponse& piece) {
  const uint32_t rank = piece.rank();
  auto [it, is_new] = sources_.try_emplace(rank);
  Source& source = it->second;
  if (is_new || source.attempt != piece.attempt()) {
    if (!is_new) {
      TellHole(rank, source);
      sink_.OnNewAttempt(rank);
    }
    source.attempt = piece.attempt();
    source.reader = FrameReader(piece.offset());
    source.damaged = false;
  }
  if (!source.damaged && !piece.data().empty()) {
    // Pieces of one rank follow each other; anything else is a mistake of the sender.
    const uint64_t expected = source.reader.offset() + source.reader.partial_bytes();
    if (piece.offset() == expected) {
      source.reader.Feed(piece.data());
      while (const std::optional<Frame> frame = source.reader.Next()) {
        if (frame->kind == FrameKind::kHole) {
          const FrameGap hole = DroppedBy(*frame).value_or(FrameGap());
          source.hole.stdout_bytes += hole.stdout_bytes;
          source.hole.stderr_bytes += hole.stderr_bytes;
          source.hole_time_ns = frame->time_ns;
          continue;
        }
        TellHole(rank, source);
        sink_.OnFrame(rank, *frame);
      }
    }
    if (piece.offset() != expected || source.reader.corrupt()) {
      source.damaged = true;
      TellHole(rank, source);
      sink_.OnDamage(rank, source.reader.offset());
    }
  }
  if (!source.damaged && piece.has_damaged_at()) {
    source.damaged = true;
    TellHole(rank, source);
    sink_.OnDamage(rank, piece.damaged_at());
  }
  if (!piece.end()) return;
  TellHole(rank, source);
  sink_.OnRankEnd(rank, piece.missing_bytes());
}

}  // namespace muster
