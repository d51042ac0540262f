// Shows the output of a job: labelled lines on a descriptor that may be slow, stalled or closed.
// Owns the threads that read and that write. The log store is the buffer: the console reads at the
// pace at which it can write, so that nothing is dropped while the job runs and nobody waits for
// it. The owner calls from one thread.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "coordinator/cli/job_source.h"
#include "coordinator/cli/line_view.h"
#include "coordinator/cli/log_follower.h"
#include "coordinator/cli/output.h"

namespace muster {

class Console {
 public:
  struct Options {
    int fd = 1;
    LogFollower::Options logs;
    LineView::Options view;
    // Without progress for this long after `EndOfJob`, the rest is counted instead of shown.
    std::chrono::milliseconds patience{10'000};
    // How often the state of a progress bar is shown while it goes on. Unset: every second on a
    // terminal, else every 10 seconds.
    std::optional<std::chrono::milliseconds> progress_interval;
  };
  // What became of the output.
  struct Result {
    // errno when the descriptor was closed; 0 otherwise.
    int closed_error = 0;
    // The other side stopped reading and the job was over.
    bool gave_up = false;
    // Counted after giving up.
    uint64_t unshown_lines = 0;
    uint64_t unshown_bytes = 0;
    // Bytes of frame files that existed and never arrived.
    uint64_t missing_bytes = 0;
    // See LineView.
    uint64_t losses = 0;
    // Why reading ended early, OK otherwise.
    absl::Status read_status;
  };
  struct Events {
    // The descriptor was closed: nothing is shown any more. On a thread of the console.
    std::function<void(int error_number)> on_closed;
    // Everything was shown, or given up. On a thread of the console.
    std::function<void()> on_done;
  };

  // Begins at once. `source` outlives the console.
  Console(JobSource& source, Options options, Events events);
  // Stops without waiting for the reader of the descriptor.
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // The job has ended: from now on the patience counts.
  void EndOfJob();
  // What is known so far; complete after `on_done`.
  Result result() const;
  // Grows whenever output is shown or counted.
  uint64_t progress() const { return progress_; }

 private:
  bool Push(v1::ReadLogsResponse piece);
  void Close(const absl::Status& status);
  void RunWriter();
  bool Pop(std::vector<v1::ReadLogsResponse>* pieces);
  void WriteAll(std::string_view bytes);
  void CountUnshown(std::string_view bytes);
  void Wake();

  const Options options_;
  const Events events_;
  Output output_;
  UniqueFd wake_;
  std::atomic<bool> ending_ = false;
  std::atomic<bool> stop_ = false;
  std::atomic<uint64_t> progress_ = 0;
  // Of the writer.
  std::unique_ptr<LineView> view_;
  std::optional<std::chrono::steady_clock::time_point> stalled_since_;
  std::chrono::steady_clock::time_point next_progress_;
  bool discard_ = false;

  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<v1::ReadLogsResponse> queue_ ABSL_GUARDED_BY(mutex_);
  size_t queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool refuse_ ABSL_GUARDED_BY(mutex_) = false;
  Result result_ ABSL_GUARDED_BY(mutex_);

  std::thread writer_;
  // Last: its thread pushes into the queue.
  std::unique_ptr<LogFollower> follower_;
};

}  // namespace muster
