#include "coordinator/cli/log_demux.h"

namespace muster {

void LogDemux::Take(const v1::ReadLogsResponse& piece) {
  const uint32_t rank = piece.rank();
  auto [it, is_new] = sources_.try_emplace(rank);
  Source& source = it->second;
  if (is_new || source.attempt != piece.attempt()) {
    if (!is_new) sink_.OnNewAttempt(rank);
    source.attempt = piece.attempt();
    source.reader = FrameReader(piece.offset());
    source.damaged = false;
  }
  if (!source.damaged && !piece.data().empty()) {
    // Pieces of one rank follow each other; anything else is a mistake of the sender.
    const uint64_t expected = source.reader.offset() + source.reader.partial_bytes();
    if (piece.offset() == expected) {
      source.reader.Feed(piece.data());
      while (const std::optional<Frame> frame = source.reader.Next()) sink_.OnFrame(rank, *frame);
    }
    if (piece.offset() != expected || source.reader.corrupt()) {
      source.damaged = true;
      sink_.OnDamage(rank, source.reader.offset());
    }
  }
  if (piece.end()) sink_.OnRankEnd(rank, piece.missing_bytes());
}

}  // namespace muster
