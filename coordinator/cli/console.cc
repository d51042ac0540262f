#include "coordinator/cli/console.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace muster {
namespace {

// Read ahead of what was written; the rest waits in the log store.
constexpr size_t kQueueBytes = size_t{4} << 20;
// Text is collected up to this size while more is already there.
constexpr size_t kWriteBytes = size_t{256} << 10;
// See Options::progress_interval.
constexpr std::chrono::milliseconds kTerminalProgress(1'000);
constexpr std::chrono::milliseconds kFileProgress(10'000);

size_t SizeOf(const v1::ReadLogsResponse& piece) { return piece.data().size() + 64; }

}  // namespace

Console::Console(JobSource& source, Options options, Events events)
    : options_(std::move(options)),
      events_(std::move(events)),
      output_(options_.fd),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      view_(std::make_unique<LineView>(options_.view)),
      writer_([this] { RunWriter(); }) {
  follower_ = std::make_unique<LogFollower>(
      source, options_.logs, [this](v1::ReadLogsResponse piece) { return Push(std::move(piece)); },
      [this](const absl::Status& status) { Close(status); });
}

Console::~Console() {
  stop_ = true;
  {
    MutexLock lock(mutex_);
    refuse_ = true;
    changed_.notify_all();
  }
  Wake();
  follower_.reset();
  writer_.join();
}

void Console::EndOfJob() {
  ending_ = true;
  Wake();
}

Console::Result Console::result() const {
  MutexLock lock(mutex_);
  return result_;
}

void Console::Wake() {
  const uint64_t one = 1;
  // EAGAIN: the counter is full, so the writer is awake anyway.
  (void)!::write(wake_.get(), &one, sizeof(one));
}

bool Console::Push(v1::ReadLogsResponse piece) {
  MutexLock lock(mutex_);
  changed_.wait(mutex_, [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return refuse_ || queued_bytes_ < kQueueBytes;
  });
  if (refuse_) return false;
  queued_bytes_ += SizeOf(piece);
  queue_.push_back(std::move(piece));
  if (queue_.size() == 1) changed_.notify_all();
  return true;
}

void Console::Close(const absl::Status& status) {
  MutexLock lock(mutex_);
  closed_ = true;
  result_.read_status = status;
  changed_.notify_all();
}

// Takes all pieces that wait. Without any it waits for some, or until progress bars are due; false
// when nothing more comes.
bool Console::Pop(std::vector<v1::ReadLogsResponse>* pieces) {
  MutexLock lock(mutex_);
  const auto ready = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return !queue_.empty() || closed_ || stop_;
  };
  // Progress bars are rare: without an unfinished line nothing has to be looked at again.
  if (view_->holds_text()) {
    changed_.wait_until(mutex_, next_progress_, ready);
  } else {
    changed_.wait(mutex_, ready);
  }
  if (stop_ || (closed_ && queue_.empty())) return false;
  size_t bytes = 0;
  while (!queue_.empty() && bytes < kWriteBytes) {
    bytes += SizeOf(queue_.front());
    pieces->push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  const bool was_full = queued_bytes_ >= kQueueBytes;
  queued_bytes_ -= bytes;
  if (was_full) changed_.notify_all();
  return true;
}

void Console::RunWriter() {
  std::string text;
  std::vector<v1::ReadLogsResponse> pieces;
  const auto pause = options_.progress_interval.value_or(output_.is_terminal() ? kTerminalProgress
                                                                               : kFileProgress);
  next_progress_ = std::chrono::steady_clock::now() + pause;
  while (Pop(&pieces)) {
    for (const v1::ReadLogsResponse& piece : pieces) {
      view_->Take(piece, &text);
      if (text.size() >= kWriteBytes) {
        WriteAll(text);
        text.clear();
      }
    }
    pieces.clear();
    const auto now = std::chrono::steady_clock::now();
    if (now >= next_progress_) {
      view_->TakeProgress(&text);
      next_progress_ = now + pause;
    }
    WriteAll(text);
    text.clear();
  }
  if (!stop_) {
    view_->Finish(&text);
    WriteAll(text);
  }
  {
    MutexLock lock(mutex_);
    result_.missing_bytes = view_->missing_bytes();
    result_.losses = view_->losses();
  }
  if (events_.on_done) events_.on_done();
}

void Console::WriteAll(std::string_view bytes) {
  while (!bytes.empty() && !discard_ && !stop_) {
    const ptrdiff_t written = output_.Write(bytes);
    if (written < 0) {
      discard_ = true;
      const int error = output_.error();
      {
        MutexLock lock(mutex_);
        result_.closed_error = error;
        // Nobody reads it: the follower need not go on either.
        refuse_ = true;
        changed_.notify_all();
      }
      if (events_.on_closed) events_.on_closed(error);
      return;
    }
    if (written > 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
      ++progress_;
      stalled_since_.reset();
      continue;
    }
    const auto now = std::chrono::steady_clock::now();
    std::chrono::milliseconds limit(-1);
    if (!ending_) {
      stalled_since_.reset();
    } else {
      if (!stalled_since_) stalled_since_ = now;
      limit = std::chrono::duration_cast<std::chrono::milliseconds>(*stalled_since_ +
                                                                    options_.patience - now);
      if (limit.count() <= 0) {
        MutexLock lock(mutex_);
        result_.gave_up = true;
        discard_ = true;
        break;
      }
    }
    output_.Wait(wake_.get(), limit);
    uint64_t count = 0;
    // EAGAIN: it was the descriptor, or the time.
    (void)!::read(wake_.get(), &count, sizeof(count));
  }
  if (discard_) CountUnshown(bytes);
}

void Console::CountUnshown(std::string_view bytes) {
  ++progress_;
  MutexLock lock(mutex_);
  if (!result_.gave_up) return;
  result_.unshown_bytes += bytes.size();
  result_.unshown_lines += static_cast<uint64_t>(std::count(bytes.begin(), bytes.end(), '\n'));
}

}  // namespace muster
