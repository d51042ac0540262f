#include "coordinator/cli/log_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace muster {

LineSplitter::LineSplitter(ControlSequences control_sequences, OnLine on_line)
    : control_sequences_(control_sequences), on_line_(std::move(on_line)), demux_(*this) {}

LineSplitter::Rank& LineSplitter::RankOf(uint32_t rank) {
  Rank& entry = ranks_[rank];
  if (entry.lines[0] == nullptr) {
    LineFormat format;
    format.control_sequences = control_sequences_;
    for (auto& lines : entry.lines) lines = std::make_unique<LineAssembler>(format);
  }
  return entry;
}

void LineSplitter::OnFrame(uint32_t rank, const Frame& frame) {
  Rank& entry = RankOf(rank);
  entry.time_ns = frame.time_ns;
  switch (frame.kind) {
    case FrameKind::kStdout:
      entry.lines[0]->Add(LogStream::kStdout, frame.payload, &text_);
      Give(rank, LogStream::kStdout, frame.time_ns);
      return;
    case FrameKind::kStderr:
      entry.lines[1]->Add(LogStream::kStdout, frame.payload, &text_);
      Give(rank, LogStream::kStderr, frame.time_ns);
      return;
    case FrameKind::kGap:
    case FrameKind::kHole:
      if (const std::optional<FrameGap> gap = DroppedBy(frame)) {
        FinishRank(rank);
        Note(rank, fmt::format("(muster: output lost here: {} bytes of stdout, {} bytes of stderr)",
                               gap->stdout_bytes, gap->stderr_bytes));
      }
      return;
    case FrameKind::kEnd:
      return;
  }
}

void LineSplitter::OnRankEnd(uint32_t rank, uint64_t missing_bytes) {
  FinishRank(rank);
  if (missing_bytes > 0) {
    Note(rank, fmt::format("(muster: the last {} bytes of this rank's log never arrived)",
                           missing_bytes));
  }
}

void LineSplitter::OnDamage(uint32_t rank, uint64_t offset) {
  FinishRank(rank);
  Note(rank,
       fmt::format("(muster: the stored log is damaged at byte {}; the rest is left out)", offset));
}

void LineSplitter::OnNewAttempt(uint32_t rank) { FinishRank(rank); }

void LineSplitter::Finish() {
  for (auto& [rank, entry] : ranks_) FinishRank(rank);
}

void LineSplitter::FinishRank(uint32_t rank) {
  const auto it = ranks_.find(rank);
  if (it == ranks_.end()) return;
  for (const LogStream stream : {LogStream::kStdout, LogStream::kStderr}) {
    it->second.lines[stream == LogStream::kStdout ? 0 : 1]->Finish(&text_);
    Give(rank, stream, it->second.time_ns);
  }
}

void LineSplitter::Give(uint32_t rank, LogStream stream, int64_t time_ns) {
  for (std::string_view rest = text_; !rest.empty();) {
    const size_t end = rest.find('\n');
    on_line_({time_ns, rank, stream, std::string(rest.substr(0, end))});
    rest.remove_prefix(end + 1);
  }
  text_.clear();
}

void LineSplitter::Note(uint32_t rank, std::string text) {
  on_line_({RankOf(rank).time_ns, rank, LogStream::kStderr, std::move(text), true});
}

void LineTail::Add(LogLine line) {
  std::deque<LogLine>& lines = lines_[line.rank];
  lines.push_back(std::move(line));
  if (lines.size() > count_) lines.pop_front();
}

std::vector<LogLine> LineTail::Take(bool by_time) {
  std::vector<LogLine> all;
  for (auto& [rank, lines] : std::exchange(lines_, {})) {
    all.insert(all.end(), std::make_move_iterator(lines.begin()),
               std::make_move_iterator(lines.end()));
  }
  if (by_time) {
    std::stable_sort(all.begin(), all.end(),
                     [](const LogLine& a, const LogLine& b) { return a.time_ns < b.time_ns; });
  }
  return all;
}

}  // namespace muster
