#include "coordinator/rpc/log_read_queue.h"

#include <algorithm>

namespace muster {

void LogReadQueue::Reset(const std::vector<uint32_t>& ranks) {
  logs_.clear();
  ready_.clear();
  is_ready_.assign(ranks.size(), false);
  open_logs_ = ranks.size();
  for (const uint32_t rank : ranks) logs_.push_back(Log{.rank = Rank{rank}});
  for (size_t index = 0; index < logs_.size(); ++index) MarkReady(index);
}

bool LogReadQueue::Grow(Rank rank, uint64_t stored) {
  const auto log = std::lower_bound(logs_.begin(), logs_.end(), rank,
                                    [](const Log& a, const Rank& b) { return a.rank < b; });
  if (log == logs_.end() || log->rank != rank) return false;
  // What arrives is progress too, though a reader may have to wait for the end of a frame.
  progress_ += std::max(log->stored, stored) - log->stored;
  log->stored = std::max(log->stored, stored);
  MarkReady(static_cast<size_t>(log - logs_.begin()));
  return true;
}

void LogReadQueue::SetState(size_t index, const RankLogState& state) {
  Log& log = logs_[index];
  if (log.ended) return;
  log.state = state;
  if (state.abandoned || state.final_size.has_value()) MarkReady(index);
}

void LogReadQueue::AbandonAll() {
  for (size_t index = 0; index < logs_.size(); ++index) {
    if (logs_[index].ended) continue;
    logs_[index].state.abandoned = true;
    MarkReady(index);
  }
}

std::optional<LogReadQueue::Turn> LogReadQueue::Take() {
  if (ready_.empty()) return std::nullopt;
  const size_t index = ready_.front();
  ready_.pop_front();
  is_ready_[index] = false;
  return Turn{.index = index, .log = logs_[index]};
}

LogReadQueue::After LogReadQueue::Put(Turn& turn) {
  Log& log = logs_[turn.index];
  progress_ += turn.log.position - log.position + turn.log.counted - log.counted;
  log.position = turn.log.position;
  log.counted = turn.log.counted;
  log.stored = std::max(log.stored, turn.log.stored);
  log.opened = turn.log.opened;
  if (log.position < log.stored) {
    MarkReady(turn.index);
    return After::kOpen;
  }
  if (follow_ && !log.state.EndsAt(log.stored)) return After::kOpen;
  // It may have been marked again during its turn, by growth that the turn has covered.
  if (is_ready_[turn.index]) {
    ready_.erase(std::find(ready_.begin(), ready_.end(), turn.index));
    is_ready_[turn.index] = false;
  }
  log.ended = true;
  turn.log = log;
  return --open_logs_ == 0 ? After::kAllEnded : After::kEnded;
}

void LogReadQueue::MarkReady(size_t index) {
  if (is_ready_[index] || logs_[index].ended) return;
  is_ready_[index] = true;
  ready_.push_back(index);
}

}  // namespace muster
