#include "coordinator/cli/time_order.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <vector>

#include "common/base/mutex.h"

namespace muster {
namespace {

using Time = std::chrono::steady_clock::time_point;

constexpr size_t kQueueBytes = size_t{1} << 20;
constexpr std::chrono::milliseconds kPatience(500);

struct Lane {
  struct Entry {
    LogLine line;
    Time arrival;
  };
  std::deque<Entry> lines;
  size_t bytes = 0;
  bool ended = false;
};

class Merge {
 public:
  explicit Merge(size_t lanes) : lanes_(lanes) {}

  void Push(size_t index, LogLine line) {
    MutexLock lock(mutex_);
    Lane& lane = lanes_[index];
    changed_.wait(
        mutex_, [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return stop_ || lane.bytes < kQueueBytes; });
    if (stop_) return;
    lane.bytes += line.text.size() + 64;
    lane.lines.push_back({std::move(line), std::chrono::steady_clock::now()});
    if (lane.lines.size() == 1) changed_.notify_all();
  }

  void End(size_t index, const absl::Status& status) {
    MutexLock lock(mutex_);
    lanes_[index].ended = true;
    if (!status.ok() && status_.ok()) status_ = status;
    changed_.notify_all();
  }

  void Stop() {
    MutexLock lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }

  // The next line in order; nothing when all lanes are at their end. `on_idle` runs before waiting.
  std::optional<LogLine> Next(bool follow, const std::function<void()>& on_idle) {
    MutexLock lock(mutex_);
    for (;;) {
      Lane* oldest = nullptr;
      bool complete = true;
      bool all_ended = true;
      for (Lane& lane : lanes_) {
        all_ended = all_ended && lane.ended && lane.lines.empty();
        if (lane.lines.empty()) {
          complete = complete && lane.ended;
        } else if (oldest == nullptr ||
                   lane.lines.front().line.time_ns < oldest->lines.front().line.time_ns) {
          oldest = &lane;
        }
      }
      if (all_ended) return std::nullopt;
      const Time now = std::chrono::steady_clock::now();
      if (oldest != nullptr &&
          (complete || (follow && now >= oldest->lines.front().arrival + kPatience))) {
        LogLine line = std::move(oldest->lines.front().line);
        oldest->lines.pop_front();
        const bool was_full = oldest->bytes >= kQueueBytes;
        oldest->bytes -= line.text.size() + 64;
        if (was_full) changed_.notify_all();
        return line;
      }
      on_idle();
      if (follow && oldest != nullptr) {
        changed_.wait_until(mutex_, oldest->lines.front().arrival + kPatience);
      } else {
        changed_.wait(mutex_);
      }
    }
  }

  absl::Status status() const {
    MutexLock lock(mutex_);
    return status_;
  }

 private:
  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<Lane> lanes_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::Status ReadInTimeOrder(JobSource& source, const LogFollower::Options& logs,
                             std::span<const uint32_t> ranks, ControlSequences control_sequences,
                             const std::function<void(LogLine)>& on_line,
                             const std::function<void()>& on_idle) {
  if (ranks.size() > kMaxOrderedRanks) {
    return absl::InvalidArgumentError(fmt::format(
        "at most {} ranks can be put in order of time, these are {}: choose with --rank",
        kMaxOrderedRanks, ranks.size()));
  }
  Merge merge(ranks.size());
  std::vector<std::unique_ptr<LineSplitter>> splitters;
  std::vector<std::unique_ptr<LogFollower>> followers;
  for (size_t i = 0; i < ranks.size(); ++i) {
    splitters.push_back(std::make_unique<LineSplitter>(
        control_sequences, [&merge, i](LogLine line) { merge.Push(i, std::move(line)); }));
  }
  for (size_t i = 0; i < ranks.size(); ++i) {
    LogFollower::Options options = logs;
    options.request.clear_ranks();
    options.request.add_ranks(ranks[i]);
    LineSplitter* splitter = splitters[i].get();
    followers.push_back(std::make_unique<LogFollower>(
        source, std::move(options),
        [splitter](const v1::ReadLogsResponse& piece) {
          splitter->Take(piece);
          return true;
        },
        [splitter, &merge, i](const absl::Status& status) {
          splitter->Finish();
          merge.End(i, status);
        }));
  }
  while (std::optional<LogLine> line = merge.Next(logs.request.follow(), on_idle)) {
    on_line(*std::move(line));
  }
  merge.Stop();
  followers.clear();
  return merge.status();
}

}  // namespace muster
