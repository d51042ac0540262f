// One ReadLogs stream: sends frame files of ranks, fairly, and follows them while they grow.
//
//   loop            which ranks there are, and when there will be nothing more (RankLogState)
//   writing thread  growth (LogListener)                              } both only mark ranks as
//   ready reading thread  `Pump`: takes the next ready rank, reads up to 256 KiB, queues it for the
//   client
//
// A client that does not read stops the pump at kMaxQueuedBytes; nothing upstream notices.
#pragma once

#include <cstdint>

#include "common/rpc/outbound_stream.h"
#include "coordinator/rpc/log_read_queue.h"
#include "coordinator/rpc/log_reader_hub.h"
#include "coordinator/rpc/stream_reactor.h"
#include "muster/v1/job.pb.h"

namespace muster {

class LogReader final : public StreamReactor<grpc::ServerWriteReactor<v1::ReadLogsResponse>>,
                        public LogListener,
                        public JobLogListener {
 public:
  static constexpr size_t kMaxQueuedBytes = size_t{1} << 20;
  static constexpr size_t kMaxQueuedMessages = 1024;
  // After the job has ended, a log that should still grow and does not is given up after this time.
  static constexpr std::chrono::seconds kPatience{10};

  // `hub` outlives this object.
  LogReader(const ServiceContext& services, grpc::CallbackServerContext* call,
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
  absl::Status StartAttempt(uint32_t attempt);
  void RefreshStates();
  void WatchForStall();
  void GiveUp();
  void Close(absl::Status status);

  // Any thread.
  bool ClientIsBehind() const;
  void PostPump();

  // Reading thread.
  void Pump();
  absl::Status OpenLog(LogReadQueue::Log& log);
  bool SendNext(LogReadQueue::Log& log);
  void SendEnd(const LogReadQueue::Log& log);

  const JobId job_;
  const v1::ReadLogsRequest request_;
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

  Mutex mutex_;
  // Not reset while a pump runs.
  LogReadQueue queue_ ABSL_GUARDED_BY(mutex_);
  bool pumping_ ABSL_GUARDED_BY(mutex_) = false;
  bool waiting_for_client_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;

  OutboundStream<LogReader, v1::ReadLogsResponse> outbound_{this};
};

}  // namespace muster
