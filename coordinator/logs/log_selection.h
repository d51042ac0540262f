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
    // Position in the log where what is wanted begins, the start of a frame. What lies before it is
    // read, too: positions are those of the whole filtered file, so that who comes back with one
    // goes on there.
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
  uint64_t pass_end(uint64_t stored) const {
    if (next_ < start_.offset) return start_.offset;
    return counting() ? start_.stored : stored;
  }

  // True once, unless something was selected before: when all that was `stored` at the start has
  // been passed, so that what follows is new.
  bool PassBeginning();

  // Takes the bytes at `next()`, up to the end of the pass, and so many zeros behind them; appends
  // frames to `out`.
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
  // Lines before `offset`.
  uint64_t lines_before_ = 0;
  bool beginning_passed_ = false;
};

}  // namespace muster
