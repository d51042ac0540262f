// One ReadLogs stream: sends frame files of ranks, fairly, and follows them while they grow.
//
//   loop            which ranks there are, and when there will be nothing more (RankLogState)
//   writing thread  growth (LogListener)                              } both only mark ranks as
//   ready reading thread  `Pump`: takes the next ready rank, reads up to 256 KiB, queues it for the
//   client
//
// A client that does not read stops the pump at kMaxQueuedBytes; nothing upstream notices. Where
// the request filters, each rank has a LogSelection between its file and the queue; since little
// may come out of it, the pump then makes room for other readers after every kMaxPumpedBytes. One
// that matches lines with an expression has the searching thread in place of the reading thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/rpc/outbound_stream.h"
#include "coordinator/logs/log_selection.h"
#include "coordinator/rpc/log_read_queue.h"
#include "coordinator/rpc/log_reader_hub.h"
#include "coordinator/rpc/log_request.h"
#include "coordinator/rpc/stream_reactor.h"
#include "muster/v1/job.pb.h"

namespace muster {

class LogReader final : public StreamReactor<grpc::ServerWriteReactor<v1::ReadLogsResponse>>,
                        public LogListener,
                        public JobLogListener {
 public:
  static constexpr size_t kMaxQueuedBytes = size_t{1} << 20;
  static constexpr size_t kMaxQueuedMessages = 1024;
  static constexpr size_t kMaxPumpedBytes = size_t{1} << 20;
  // With `grep`, which may take microseconds for every byte: what is read at a time, and the time
  // after which others have their turn.
  static constexpr size_t kMaxSearchedBytes = size_t{64} << 10;
  static constexpr std::chrono::milliseconds kSearchTime{20};
  // After the job has ended, a log that should still grow and does not is given up after this time.
  static constexpr std::chrono::seconds kPatience{30};

  // `hub` outlives this object.
  LogReader(const ServiceContext& services, grpc::CallbackServerContext* call, Caller caller,
            v1::ReadLogsRequest request, LogReaderHub& hub);

  // Reactions.
  void OnWriteDone(bool ok) override;
  void OnCancel() override;

  // LogListener; writing thread.
  void OnLogGrowth(const StoredLogId& file, uint64_t committed) override;

  // JobLogListener; loop.
  void OnJobLogsChanged() override;

 private:
  void Begin() override;
  void Ended() override;

  // Loop.
  void NextAttempt();
  uint32_t WantedAttempt(uint32_t newest) const;
  absl::Status StartAttempt(uint32_t attempt);
  void RefreshStates();
  void WatchForStall();
  void GiveUp();
  void Close(absl::Status status);

  // Any thread.
  bool ClientIsBehind() const;
  void PostPump();

  // Any thread.
  void PostPumpTask();
  bool searches() const { return filter_.ok() && filter_->has_value() && (*filter_)->pattern; }

  // Reading thread.
  void Pump();
  bool SendNext(LogReadQueue::Turn& turn);
  absl::Status OpenLog(LogReadQueue::Turn& turn);
  // Tells a client that follows a tail where that began, also when there was nothing in it: who
  // comes back without a position would get another tail, and miss what was written meanwhile.
  void TellBeginning(const LogReadQueue::Turn& turn);
  absl::StatusOr<LogPiece> Read(Rank rank, uint64_t offset, uint64_t end) const;
  absl::Status SendPiece(LogReadQueue::Log& log);
  absl::Status SendSelected(LogReadQueue::Log& log, LogSelection& selection);
  void SendEnd(const LogReadQueue::Turn& turn);
  v1::ReadLogsResponse ResponseFor(const LogReadQueue::Log& log, uint64_t offset) const;

  const JobId job_;
  const Caller caller_;
  const v1::ReadLogsRequest request_;
  // Nothing: every byte is sent.
  const absl::StatusOr<std::optional<LogFilterOptions>> filter_;
  const KnownPositions known_;
  LogReaderHub& hub_;

  // Of the loop.
  bool listening_ = false;
  bool waiting_for_attempt_ = false;
  bool refresh_posted_ = false;
  bool closing_ = false;
  bool stall_watched_ = false;
  uint64_t last_progress_ = 0;

  // Written by the loop, with the mutex, while no pump runs.
  AttemptId attempt_;
  // `tail_lines` concerns this attempt only.
  uint32_t first_attempt_ = 0;
  // Of the pump, and reset like `attempt_`: one for each log that was opened, where the request
  // filters.
  std::vector<std::unique_ptr<LogSelection>> selections_;
  // Logs of which only the tail was asked for.
  std::vector<bool> tails_;

  Mutex mutex_;
  // Not reset while a pump runs.
  LogReadQueue queue_ ABSL_GUARDED_BY(mutex_);
  bool pumping_ ABSL_GUARDED_BY(mutex_) = false;
  bool waiting_for_client_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;

  OutboundStream<LogReader, v1::ReadLogsResponse> outbound_{this};
};

}  // namespace muster
