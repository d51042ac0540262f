#include "agent/session/log_shipper.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/annotate.h"

namespace muster {
namespace {

v1::LogFile FileOf(const LogFileId& id) {
  v1::LogFile file;
  file.mutable_key()->set_job_id(id.attempt.job.value());
  file.mutable_key()->set_attempt(id.attempt.attempt);
  file.set_rank(id.rank);
  return file;
}

LogFileId IdOfFile(const v1::LogFile& file) {
  return {{JobId(file.key().job_id()), file.key().attempt()}, file.rank()};
}

}  // namespace

// One frame file.
struct LogShipper::File {
  // Size when it was last read.
  uint64_t size = 0;
  // What may be read before the file is closed.
  uint64_t fixed = 0;
  // Stored at the coordinator, as far as any connection told.
  uint64_t committed = 0;
  // Sent on this connection; between `committed` and `size`. Meaningful once `ready`.
  uint64_t sent = 0;
  // The coordinator told where shipping begins, on this connection.
  bool ready = false;
  // The same, on any connection of this session.
  bool compared = false;
  // Complete at this size.
  std::optional<uint64_t> closed;
  bool complete_told = false;
  // Left out: see Fail.
  bool failed = false;

  // End of what may be sent now.
  uint64_t end() const { return closed ? size : std::min(size, fixed); }

  // Not to be read before the next poll: see Unreadable.
  bool unreadable = false;
  // Committed size that could not be compared with the file yet.
  std::optional<uint64_t> told;
  // When output that waits for more has to go at the latest.
  std::optional<TimePoint> flush_at;

  bool work() const {
    return !failed && (!compared || committed < size || (closed && !complete_told));
  }
};

LogShipper::LogShipper(Executor& executor, NodeId node, SpoolReader& spool, Callbacks callbacks)
    : executor_(executor),
      node_(std::move(node)),
      spool_(spool),
      callbacks_(std::move(callbacks)) {}

LogShipper::~LogShipper() {
  executor_.Cancel(flush_timer_);
  executor_.Cancel(poll_timer_);
}

void LogShipper::OnSession(const std::string& session_id) {
  OnSessionLost();
  session_id_ = session_id;
  SchedulePoll();
  TellWork();
}

void LogShipper::OnSessionLost() {
  OnDisconnected();
  session_id_.clear();
  executor_.Cancel(std::exchange(poll_timer_, 0));
  for (auto& [id, file] : files_) file.compared = false;
}

void LogShipper::OnConnected(LogSink* sink) {
  OnDisconnected();
  sink_ = sink;
  v1::UploadLogsRequest request;
  v1::LogHello& hello = *request.mutable_hello();
  hello.set_node_id(node_.value());
  hello.set_session_id(session_id_);
  for (const auto& [id, file] : files_) {
    if (!file.failed) *hello.add_files() = FileOf(id);
  }
  sink_->Send(std::move(request));
}

void LogShipper::OnDisconnected() {
  sink_ = nullptr;
  in_flight_bytes_ = 0;
  executor_.Cancel(std::exchange(flush_timer_, 0));
  for (auto& [id, file] : files_) {
    file.ready = false;
    file.sent = file.committed;
    file.flush_at.reset();
    file.told.reset();
  }
}

void LogShipper::OnMessage(const v1::UploadLogsResponse& response) {
  for (const v1::CommittedLog& committed : response.committed()) {
    // An earlier one may have closed the connection.
    if (sink_ == nullptr) break;
    const LogFileId id = IdOfFile(committed.file());
    const auto found = files_.find(id);
    // A file that was released meanwhile.
    if (found == files_.end() || found->second.failed) continue;
    OnCommitted(id, found->second, committed.committed_size());
  }
  SchedulePump();
  TellWork();
}

void LogShipper::OnCommitted(const LogFileId& id, File& file, uint64_t bytes) {
  if (bytes < file.committed) {
    return Fail(id, file,
                absl::FailedPreconditionError(
                    fmt::format("committed size went back from {} to {}", file.committed, bytes)));
  }
  if (!file.ready) {
    const absl::StatusOr<SpoolReader::Extent> extent = spool_.Stat(id);
    if (!extent.ok()) {
      file.told = bytes;
      return Unreadable(id, file, extent.status());
    }
    file.size = std::max(file.size, extent->end);
    file.fixed = std::max(file.fixed, extent->fixed);
    if (bytes > file.size) {
      return Fail(
          id, file,
          absl::FailedPreconditionError(fmt::format(
              "committed size {} is beyond the file, which has {} bytes", bytes, file.size)));
    }
    if (bytes < extent->begin) {
      return Fail(id, file,
                  absl::FailedPreconditionError(fmt::format(
                      "committed size {} is before byte {}, the first that is still held", bytes,
                      extent->begin)));
    }
    file.ready = file.compared = true;
    file.sent = bytes;
    SchedulePump();
  } else {
    if (bytes > file.sent) {
      return Fail(
          id, file,
          absl::FailedPreconditionError(fmt::format(
              "committed size {} is beyond the {} bytes that were sent", bytes, file.sent)));
    }
    in_flight_bytes_ -= bytes - file.committed;
  }
  if (bytes > file.committed) {
    file.committed = bytes;
    if (callbacks_.committed) callbacks_.committed(id, bytes);
  }
  CheckComplete(id, file);
}

void LogShipper::CheckComplete(const LogFileId& id, File& file) {
  if (!file.closed || file.complete_told || file.committed < *file.closed) return;
  file.complete_told = true;
  if (callbacks_.complete) callbacks_.complete(id);
}

void LogShipper::Fail(const LogFileId& id, File& file, absl::Status status) {
  file.failed = true;
  status = Annotate(status, fmt::format("output of rank {} of job {} attempt {}", id.rank,
                                        id.attempt.job.value(), id.attempt.attempt));
  if (callbacks_.failed) callbacks_.failed(id, status);
  // The next connection goes on without the file.
  LogSink* const sink = sink_;
  OnDisconnected();
  if (sink != nullptr) sink->Close(absl::FailedPreconditionError(status.message()));
}

void LogShipper::Unreadable(const LogFileId& id, File& file, const absl::Status& status) {
  file.flush_at.reset();
  if (!std::exchange(file.unreadable, true) && callbacks_.unreadable) {
    callbacks_.unreadable(id, status);
  }
}

void LogShipper::AddFiles(const AttemptId& attempt, const std::vector<uint32_t>& ranks) {
  v1::UploadLogsRequest request;
  for (const uint32_t rank : ranks) {
    const LogFileId id{attempt, rank};
    if (files_.try_emplace(id).second) *request.mutable_open()->add_files() = FileOf(id);
  }
  if (sink_ != nullptr && request.has_open()) sink_->Send(std::move(request));
  TellWork();
}

void LogShipper::OnClosed(const LogFileId& id, uint64_t size) {
  const auto found = files_.find(id);
  if (found == files_.end()) return;
  File& file = found->second;
  file.closed = size;
  CheckComplete(id, file);
  Restat(id, file);
  TellWork();
}

void LogShipper::OnSpoolGrew(const LogFileId& id) {
  const auto found = files_.find(id);
  if (found == files_.end()) return;
  Restat(id, found->second);
  TellWork();
}

void LogShipper::Restat(const LogFileId& id, File& file) {
  if (file.failed) return;
  const absl::StatusOr<SpoolReader::Extent> extent = spool_.Stat(id);
  if (!extent.ok()) return Unreadable(id, file, extent.status());
  file.unreadable = false;
  if (extent->end < file.size) {
    return Fail(id, file,
                absl::DataLossError(fmt::format("the file has {} bytes, but had {} before",
                                                extent->end, file.size)));
  }
  file.size = extent->end;
  file.fixed = std::max(file.fixed, extent->fixed);
  if (file.told) return OnCommitted(id, file, *std::exchange(file.told, std::nullopt));
  if (file.ready && file.sent < file.end()) SchedulePump();
}

void LogShipper::RemoveAttempt(const AttemptId& attempt) {
  for (auto it = files_.begin(); it != files_.end();) {
    if (it->first.attempt != attempt) {
      ++it;
      continue;
    }
    if (it->second.ready) in_flight_bytes_ -= it->second.sent - it->second.committed;
    it = files_.erase(it);
  }
  spool_.Forget(attempt);
  SchedulePump();
  TellWork();
}

bool LogShipper::HasWork() const {
  return std::any_of(files_.begin(), files_.end(),
                     [](const auto& entry) { return entry.second.work(); });
}

void LogShipper::TellWork() {
  const bool work = HasWork();
  if (work != std::exchange(work_, work) && callbacks_.work) callbacks_.work(work);
}

uint64_t LogShipper::pending_bytes() const {
  uint64_t bytes = 0;
  for (const auto& [id, file] : files_) {
    if (!file.failed) bytes += file.size - std::min(file.size, file.committed);
  }
  return bytes;
}

bool LogShipper::Complete(const LogFileId& id) const {
  const auto found = files_.find(id);
  return found != files_.end() && found->second.complete_told;
}

void LogShipper::SchedulePump() {
  if (sink_ == nullptr || std::exchange(pump_posted_, true)) return;
  executor_.Post([this, alive = std::weak_ptr<int>(alive_)] {
    if (alive.expired()) return;
    pump_posted_ = false;
    Pump();
  });
}

// Sends until the window is full or nothing is left, one chunk per file and round.
void LogShipper::Pump() {
  bool sent = true;
  while (sent && sink_ != nullptr) {
    sent = false;
    auto it = files_.upper_bound(last_);
    for (size_t i = files_.size(); i > 0 && sink_ != nullptr; --i, ++it) {
      if (it == files_.end()) it = files_.begin();
      if (in_flight_bytes_ >= kWindowBytes) return;
      if (!SendSome(it->first, it->second)) continue;
      last_ = it->first;
      sent = true;
    }
  }
  if (sink_ != nullptr) ScheduleFlush();
}

bool LogShipper::SendSome(const LogFileId& id, File& file) {
  if (!file.ready || file.failed || file.unreadable || file.sent >= file.end()) return false;
  const uint64_t waiting = file.end() - file.sent;
  const TimePoint now = executor_.clock().Now();
  if (waiting < kFlushBytes && file.sent > file.committed && !file.closed) {
    // Something is on its way: a little output is worth waiting for more.
    if (!file.flush_at) file.flush_at = now + kFlushDelay;
    if (now < *file.flush_at) return false;
  }
  file.flush_at.reset();
  const uint64_t room = std::min(waiting, kWindowBytes - in_flight_bytes_);
  // The padding of what was dropped may be a thousand times what was kept.
  const SpoolReader::Run run = spool_.RunAt(id, file.sent);
  const uint64_t zeros = run.zeros ? std::min(room, run.bytes) : 0;
  if (zeros >= kLeastZeros) {
    SendChunk(id, file, "", zeros);
    return true;
  }
  const uint64_t most = std::min({room, kMaxChunkBytes, run.zeros ? kMaxChunkBytes : run.bytes});
  absl::StatusOr<std::string> bytes = spool_.Read(id, file.sent, most);
  if (bytes.ok() && bytes->empty()) {
    bytes = absl::DataLossError(
        fmt::format("the file ends at byte {}, but had {} bytes before", file.sent, file.size));
  }
  if (!bytes.ok()) {
    Fail(id, file, bytes.status());
    return false;
  }
  SendChunk(id, file, *std::move(bytes), 0);
  return true;
}

void LogShipper::SendChunk(const LogFileId& id, File& file, std::string data, uint64_t zeros) {
  v1::UploadLogsRequest request;
  v1::LogChunk& chunk = *request.mutable_chunk();
  *chunk.mutable_file() = FileOf(id);
  chunk.set_offset(file.sent);
  file.sent += data.size() + zeros;
  in_flight_bytes_ += data.size() + zeros;
  chunk.set_data(std::move(data));
  chunk.set_zeros(zeros);
  sink_->Send(std::move(request));
}

// Wakes up for the earliest output that waits for more.
void LogShipper::ScheduleFlush() {
  std::optional<TimePoint> earliest;
  for (const auto& [id, file] : files_) {
    if (file.flush_at && (!earliest || *file.flush_at < *earliest)) earliest = file.flush_at;
  }
  executor_.Cancel(flush_timer_);
  flush_timer_ = 0;
  if (!earliest) return;
  const Duration delay = std::max(*earliest - executor_.clock().Now(), Duration(0));
  flush_timer_ = executor_.PostAfter(delay, [this] {
    flush_timer_ = 0;
    Pump();
  });
}

void LogShipper::SchedulePoll() {
  executor_.Cancel(poll_timer_);
  poll_timer_ = executor_.PostAfter(kPollInterval, [this] {
    poll_timer_ = 0;
    Poll();
  });
}

void LogShipper::Poll() {
  for (auto& [id, file] : files_) {
    if (file.closed && file.size >= *file.closed && !file.unreadable) continue;
    Restat(id, file);
  }
  SchedulePoll();
  TellWork();
}

}  // namespace muster
