// The program's own messages on stderr. It owns the queue of messages that stderr did not take yet,
// so that a stalled terminal holds up nobody; what does not fit the queue is dropped and counted.
// Thread-safe; `Say` never blocks.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "common/base/mutex.h"
#include "coordinator/cli/output.h"

namespace muster {

class Reporter {
 public:
  explicit Reporter(int fd);

  // Prints every line of `text` with "muster: " in front. Quiet does not silence it.
  void Say(std::string_view text);
  // The same for what `--quiet` silences.
  void Note(std::string_view text);
  // Prints `text` as it is, for messages that begin with FILE:LINE or continue another.
  void Print(std::string_view text);
  // On a terminal: a line that stays only until the next message. Empty removes it. Does nothing
  // elsewhere.
  void Progress(std::string_view text);

  void set_quiet(bool quiet);
  bool is_terminal() const { return terminal_; }
  bool colour() const { return colour_; }

  // Tries again to print what was not taken; true when nothing is left.
  bool Retry();
  // Waits until everything is printed, giving up when nothing moves for `patience`.
  void Flush(std::chrono::milliseconds patience);

 private:
  void Add(std::string_view text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Drain() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ClearProgress() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const bool terminal_;
  const bool colour_;
  Mutex mutex_;
  Output output_ ABSL_GUARDED_BY(mutex_);
  std::string pending_ ABSL_GUARDED_BY(mutex_);
  size_t dropped_messages_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string progress_ ABSL_GUARDED_BY(mutex_);
  bool quiet_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace muster
