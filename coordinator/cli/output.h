// Writes to a descriptor that somebody else may have stalled or closed, without ever being stuck in
// a write. It owns at most a private description of the same file; the flags of the shared one,
// which the user's shell and other programs use too, are never changed. For one thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <string_view>

#include "common/io/unique_fd.h"

namespace muster {

class Output {
 public:
  // Does not own `fd`.
  explicit Output(int fd);

  // Writes as much of `bytes` as goes without waiting and returns how much that was: 0 when the
  // other side is not reading. -1 when nothing can be written any more, see `error`.
  ptrdiff_t Write(std::string_view bytes);
  // Waits until more can be written, `wake_fd` (or -1) becomes readable, or the time is over
  // (negative: no limit). True when writing is worth another try.
  bool Wait(int wake_fd, std::chrono::milliseconds limit);

  bool is_terminal() const { return is_terminal_; }
  // errno of the write that failed for good.
  int error() const { return error_; }

 private:
  enum class Kind {
    kPlain,   // files and the like: never stall
    kOwn,     // pipes and terminals: a non-blocking description of our own
    kSocket,  // non-blocking by flag
    kPolite,  // the rest: small writes, and only when poll allows
  };

  int fd_;
  UniqueFd own_;
  Kind kind_ = Kind::kPolite;
  bool is_terminal_ = false;
  int error_ = 0;
};

// True when colour belongs on this descriptor: a terminal that is not "dumb", and no NO_COLOR.
bool WantsColour(int fd);

}  // namespace muster
