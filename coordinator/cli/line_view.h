// Makes labelled console text of frames: one LineAssembler per rank, colours. Pure; for
// one thread at a time.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "coordinator/cli/log_demux.h"
#include "coordinator/logs/line_assembler.h"

namespace muster {

// `[rank@host] `, coloured by rank when `colour` is set.
std::string RankLabel(uint32_t rank, std::string_view host, bool colour);

class LineView final : public FrameSink {
 public:
  struct Options {
    // Host of a rank, for its label. Called once per rank.
    std::function<std::string(uint32_t rank)> host_of;
    // The text goes to a terminal: control sequences other than colour are removed.
    bool terminal = false;
    bool colour = false;
    // Bytes as they are: no labels, no lines.
    bool raw = false;
    // Gaps before this time (nanoseconds since 1970, clock of the node) are not told.
    int64_t since_ns = 0;
  };

  explicit LineView(Options options);

  // Appends what `piece` completes to `out`.
  void Take(const v1::ReadLogsResponse& piece, std::string* out);
  // Appends news of progress bars; call now and then. True when there were any.
  bool TakeProgress(std::string* out);
  // Appends what is still held: nothing more comes.
  void Finish(std::string* out);
  // True while a line is unfinished somewhere.
  bool holds_text() const;

  // Bytes that existed and never arrived, over all ranks.
  uint64_t missing_bytes() const { return missing_bytes_; }
  // Places where output is missing that are not shown, because only bytes are.
  uint64_t losses() const { return losses_; }

  void OnFrame(uint32_t rank, const Frame& frame) override;
  void OnRankEnd(uint32_t rank, uint64_t missing_bytes) override;
  void OnDamage(uint32_t rank, uint64_t offset) override;
  void OnNewAttempt(uint32_t rank) override;

 private:
  LineAssembler& LinesOf(uint32_t rank);
  void AddNote(uint32_t rank, std::string_view text);

  const Options options_;
  LogDemux demux_;
  absl::flat_hash_map<uint32_t, std::unique_ptr<LineAssembler>> lines_;
  // Where the call in progress puts its text.
  std::string* out_ = nullptr;
  uint64_t missing_bytes_ = 0;
  uint64_t losses_ = 0;
};

}  // namespace muster
