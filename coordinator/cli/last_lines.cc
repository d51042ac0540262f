#include "coordinator/cli/last_lines.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <thread>

#include "common/base/mutex.h"
#include "coordinator/cli/log_demux.h"
#include "coordinator/logs/line_assembler.h"

namespace muster {
namespace {

constexpr uint64_t kTailBytes = 64 << 10;
constexpr size_t kShownBytesPerLine = 400;
constexpr std::chrono::seconds kDeadline(3);

// Collects the text of one rank.
class TextSink final : public FrameSink {
 public:
  void OnFrame(uint32_t, const Frame& frame) override {
    if (frame.kind == FrameKind::kStdout) lines_.Add(LogStream::kStdout, frame.payload, &text_);
    if (frame.kind == FrameKind::kStderr) lines_.Add(LogStream::kStderr, frame.payload, &text_);
  }
  void OnRankEnd(uint32_t, uint64_t) override {}
  void OnDamage(uint32_t, uint64_t) override {}
  void OnNewAttempt(uint32_t) override { text_.clear(); }

  std::string TakeText() {
    lines_.Finish(&text_);
    return std::move(text_);
  }

 private:
  LineAssembler lines_{LineFormat{"", ControlSequences::kNone, size_t{64} << 10}};
  std::string text_;
};

// Cancels a call when the time is over.
class Deadline {
 public:
  Deadline(Cancellation& cancellation, std::chrono::milliseconds limit)
      : thread_([this, &cancellation, limit] {
          MutexLock lock(mutex_);
          if (!changed_.wait_for(mutex_, limit,
                                 [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return over_; })) {
            cancellation.Cancel();
          }
        }) {}
  ~Deadline() {
    {
      MutexLock lock(mutex_);
      over_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }

 private:
  Mutex mutex_;
  std::condition_variable_any changed_;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace

std::vector<std::string> ReadLastLines(JobSource& source, const std::string& job_id, uint32_t rank,
                                       size_t count) {
  v1::ReadLogsRequest request;
  request.set_job_id(job_id);
  request.add_ranks(rank);
  request.set_tail_bytes(kTailBytes);
  request.set_sparse(true);
  TextSink sink;
  LogDemux demux(sink);
  bool from_start = true;
  bool first = true;
  Cancellation cancellation;
  {
    const Deadline deadline(cancellation, kDeadline);
    // What arrived before an error is worth showing.
    (void)source.ReadLogs(request, cancellation, [&](const v1::ReadLogsResponse& piece) {
      if (first) from_start = piece.offset() == 0;
      first = false;
      demux.Take(piece);
      return true;
    });
  }
  std::vector<std::string> lines;
  const std::string text = sink.TakeText();
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    if (line.size() > kShownBytesPerLine) {
      lines.push_back(
          fmt::format("{} ... ({} bytes)", line.substr(0, kShownBytesPerLine), line.size()));
    } else {
      lines.emplace_back(line);
    }
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  // The first one may have lost its beginning.
  if (!from_start && lines.size() > 1) lines.erase(lines.begin());
  if (lines.size() > count) lines.erase(lines.begin(), lines.end() - static_cast<ptrdiff_t>(count));
  return lines;
}

}  // namespace muster
