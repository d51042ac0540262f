#include "coordinator/cli/log_demux.h"

namespace muster {

void LogDemux::TellHole(uint32_t rank, Source& source) {
  const std::optional<HoleMerger::Hole> hole = source.holes.Tell();
  if (!hole.has_value()) return;
  const auto payload = EncodeFrameGap(hole->dropped);
  sink_.OnFrame(rank,
                {FrameKind::kGap, hole->time_ns, std::string_view(payload.data(), payload.size())});
}

void LogDemux::TakeFrames(uint32_t rank, Source& source) {
  while (const std::optional<Frame> frame = source.reader.Next()) {
    if (source.holes.Take(*frame)) continue;
    TellHole(rank, source);
    sink_.OnFrame(rank, *frame);
  }
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
  if (!source.damaged && (!piece.data().empty() || piece.zeros() > 0)) {
    // Pieces of one rank follow each other; anything else is a mistake of the sender.
    const uint64_t expected = source.reader.offset() + source.reader.partial_bytes();
    if (piece.offset() == expected) {
      source.reader.Feed(piece.data());
      TakeFrames(rank, source);
      for (uint64_t left = piece.zeros(); left > 0;) {
        left -= source.reader.FeedZeros(left);
        TakeFrames(rank, source);
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
