// Virtual time for tests: a queue of tasks that only the test runs. Several executors may share one
// queue and one clock, one per simulated process; a process that is killed takes its tasks with it.
// Single-threaded; nothing ever waits.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "common/base/clock.h"
#include "common/base/executor.h"

namespace muster::testing {

// A clock that moves only when it is told to.
class FakeClock final : public Clock {
 public:
  TimePoint Now() const override { return now_; }
  WallTime WallNow() const override {
    return wall_start_ + std::chrono::duration_cast<WallTime::duration>(now_ - TimePoint());
  }
  void Advance(Duration by) { now_ += by; }
  void Set(TimePoint now) { now_ = now; }
  // Time since the beginning of the test.
  Duration elapsed() const { return now_ - kStart; }

 private:
  static constexpr TimePoint kStart{std::chrono::hours(1)};
  TimePoint now_ = kStart;
  WallTime wall_start_{std::chrono::seconds(1'700'000'000)};
};

// The queue that executors share.
class SimQueue {
 public:
  using Task = Executor::Task;
  using TaskId = uint64_t;

  TaskId Add(Duration delay, Task task) {
    if (delay < Duration(0)) delay = Duration(0);
    const TaskId id = next_++;
    tasks_.emplace(std::pair(clock_.Now() + delay, id), std::move(task));
    times_.emplace(id, clock_.Now() + delay);
    return id;
  }
  void Cancel(TaskId id) {
    const auto found = times_.find(id);
    if (found == times_.end()) return;
    tasks_.erase({found->second, id});
    times_.erase(found);
  }
  // Runs the next task; false when there is none, or none before `until` (the clock then stays).
  bool RunOne(TimePoint until = TimePoint::max()) {
    if (tasks_.empty() || tasks_.begin()->first.first > until) return false;
    auto node = tasks_.extract(tasks_.begin());
    times_.erase(node.key().second);
    if (node.key().first > clock_.Now()) clock_.Set(node.key().first);
    node.mapped()();
    return true;
  }
  // Runs everything that is due within `duration`, and leaves the clock at its end.
  void RunFor(Duration duration) {
    const TimePoint until = clock_.Now() + duration;
    while (RunOne(until)) {
    }
    clock_.Set(until);
  }
  // Runs what is due now, and what that posts.
  void RunReady() { RunFor(Duration(0)); }

  FakeClock& clock() { return clock_; }

 private:
  FakeClock clock_;
  TaskId next_ = 1;
  std::map<std::pair<TimePoint, TaskId>, Task> tasks_;
  std::map<TaskId, TimePoint> times_;
};

// The executor of one simulated process.
class SimExecutor final : public Executor {
 public:
  explicit SimExecutor(SimQueue& queue) : queue_(queue) {}
  ~SimExecutor() override { *alive_ = false; }
  SimExecutor(const SimExecutor&) = delete;
  SimExecutor& operator=(const SimExecutor&) = delete;

  void Post(Task task) override { PostAfter(Duration(0), std::move(task)); }
  TimerId PostAfter(Duration delay, Task task) override {
    return queue_.Add(delay, [alive = alive_, task = std::move(task)] {
      if (*alive) task();
    });
  }
  void Cancel(TimerId timer) override { queue_.Cancel(timer); }
  const Clock& clock() const override { return queue_.clock(); }

  // Nothing that was or will be posted runs any more.
  void Kill() { *alive_ = false; }
  bool alive() const { return *alive_; }

 private:
  SimQueue& queue_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace muster::testing
