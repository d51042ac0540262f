// Which of many logs a reader sends from next: those that may have something to send wait in a
// queue and take turns, one piece each, so that a long log does not hold up a short one. Pure; the
// caller keeps calls apart from each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "coordinator/core/coordinator_core.h"

namespace muster {

class LogReadQueue {
 public:
  struct Log {
    Rank rank;
    // Next byte to read, and bytes that are stored.
    uint64_t position = 0;
    uint64_t stored = 0;
    // Bytes that were read only to find out where to begin.
    uint64_t counted = 0;
    RankLogState state;
    // Its start was looked up.
    bool opened = false;
    // Its end was reached; it is not taken again.
    bool ended = false;
  };
  // A log whose turn it is: a copy, so that reading needs no lock and growth does not wait for it.
  struct Turn {
    size_t index = 0;
    Log log;
  };
  enum class After { kOpen, kEnded, kAllEnded };

  // `follow`: a log ends only when its source says that nothing more will come; otherwise at what
  // is stored.
  explicit LogReadQueue(bool follow) : follow_(follow) {}

  // Begins anew with these ranks, sorted and each once; all of them are ready. Not while a turn
  // lasts.
  void Reset(const std::vector<uint32_t>& ranks);

  // A log has `stored` bytes now. False when there is no log of this rank.
  bool Grow(Rank rank, uint64_t stored);
  // What is known of the log at `index` has changed; it is ready if that may be its end.
  void SetState(size_t index, const RankLogState& state);
  // Nothing more is waited for.
  void AbandonAll();

  bool has_ready() const { return !ready_.empty(); }
  // Begins the turn of the log that has waited longest; nothing when none is ready. A log that
  // grows during its turn is ready again.
  std::optional<Turn> Take();
  // Ends a turn, of which `position`, `stored`, `counted` and `opened` are taken over. When the log
  // has ended with it, `turn` holds the state that it ended with. A log ends once, and kAllEnded is
  // returned once.
  After Put(Turn& turn);

  size_t size() const { return logs_.size(); }
  const Log& log(size_t index) const { return logs_[index]; }
  // Logs that have not ended.
  size_t open_logs() const { return open_logs_; }
  // Bytes that were read over all turns, or have arrived, so far.
  uint64_t progress() const { return progress_; }

 private:
  void MarkReady(size_t index);

  const bool follow_;
  std::vector<Log> logs_;
  // Indices in the order in which the logs wait; each at most once, and no log that has ended.
  std::deque<size_t> ready_;
  std::vector<bool> is_ready_;
  size_t open_logs_ = 0;
  uint64_t progress_ = 0;
};

}  // namespace muster
