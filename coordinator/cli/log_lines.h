// Takes output apart into lines for `logs`, where lines are chosen, counted and put in order one by
// one. Pure; for one thread at a time.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/cli/log_demux.h"
#include "coordinator/logs/line_assembler.h"

namespace muster {

struct LogLine {
  // When the node read the end of the line, nanoseconds since 1970.
  int64_t time_ns = 0;
  uint32_t rank = 0;
  LogStream stream = LogStream::kStdout;
  // Without its newline.
  std::string text;
  // Written by Muster, about output that is missing.
  bool is_note = false;
};

class LineSplitter final : public FrameSink {
 public:
  using OnLine = std::function<void(LogLine line)>;

  LineSplitter(ControlSequences control_sequences, OnLine on_line);

  void Take(const v1::ReadLogsResponse& piece) { demux_.Take(piece); }
  // Gives what is still held: nothing more comes.
  void Finish();

  void OnFrame(uint32_t rank, const Frame& frame) override;
  void OnRankEnd(uint32_t rank, uint64_t missing_bytes) override;
  void OnDamage(uint32_t rank, uint64_t offset) override;
  void OnNewAttempt(uint32_t rank) override;

 private:
  // stdout and stderr apart, so that it is known which one a line came from.
  struct Rank {
    std::unique_ptr<LineAssembler> lines[2];
    int64_t time_ns = 0;
  };

  Rank& RankOf(uint32_t rank);
  void FinishRank(uint32_t rank);
  void Give(uint32_t rank, LogStream stream, int64_t time_ns);
  void Note(uint32_t rank, std::string text);

  const ControlSequences control_sequences_;
  const OnLine on_line_;
  LogDemux demux_;
  absl::flat_hash_map<uint32_t, Rank> ranks_;
  std::string text_;
};

// Keeps the last lines of every rank.
class LineTail {
 public:
  explicit LineTail(size_t count) : count_(count) {}

  void Add(LogLine line);
  // All that was kept, by rank, or by time. Empties it.
  std::vector<LogLine> Take(bool by_time);

 private:
  const size_t count_;
  std::map<uint32_t, std::deque<LogLine>> lines_;
};

}  // namespace muster
