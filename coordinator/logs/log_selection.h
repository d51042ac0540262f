// What one reader gets of one log when it filters: runs the log through a LogFilter, after it has
// found out, where the last lines are wanted, where these begin. That takes one more pass over what
// is stored, and no memory. For one thread at a time; the caller reads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "coordinator/logs/log_filter.h"

namespace muster {

class LogSelection {
 public:
  struct Start {
    // Position in the log where reading begins, the start of a frame.
    uint64_t offset = 0;
    // Position in the filtered file up to which the reader has everything.
    uint64_t known = 0;
    // Begin with so many lines before what is `stored`.
    std::optional<uint64_t> last_lines;
    uint64_t stored = 0;
  };

  LogSelection(LogFilterOptions options, Start start);

  // True during the first of two passes.
  bool counting() const { return counter_.has_value(); }
  // Position in the log of the byte that is wanted next.
  uint64_t next() const { return next_; }
  // End of the pass when `stored` bytes can be read.
  uint64_t pass_end(uint64_t stored) const { return counting() ? start_.stored : stored; }

  // Takes the bytes at `next()`, and so many zeros behind them; appends frames to `out`.
  void Take(std::string_view bytes, uint64_t zeros, std::string* out);
  // Appends the text of lines that have not ended; not while counting.
  void Finish(std::string* out) { filter_->Finish(out); }

  // See LogFilter; not while counting.
  uint64_t position() const { return filter_->position(); }
  std::optional<uint64_t> damaged_at() const { return filter_->damaged_at(); }

 private:
  void EndCounting();

  const LogFilterOptions options_;
  const Start start_;
  uint64_t next_;
  std::optional<LogFilter> counter_;
  // Nothing while counting.
  std::optional<LogFilter> filter_;
};

}  // namespace muster
