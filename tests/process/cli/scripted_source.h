// A JobSource that plays a script: pieces of logs, one call after the other, each call with its own
// end.
#pragma once

#include <absl/status/status.h>

#include <condition_variable>
#include <deque>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "coordinator/cli/job_source.h"

namespace muster::testing {

class ScriptedSource final : public JobSource {
 public:
  struct Call {
    std::vector<v1::ReadLogsResponse> pieces;
    absl::Status end;
    // Ends only when it is cancelled.
    bool hangs = false;
  };

  void AddCall(Call call) {
    MutexLock lock(mutex_);
    calls_.push_back(std::move(call));
  }
  std::vector<v1::ReadLogsRequest> requests() const {
    MutexLock lock(mutex_);
    return requests_;
  }

  absl::StatusOr<v1::Job> GetJob(const std::string&) override {
    return absl::NotFoundError("no job");
  }
  absl::Status WatchJob(const std::string&, Cancellation&, const OnJob&) override {
    return absl::NotFoundError("no job");
  }
  // Plays the next call; one that asks for a single rank gets only the pieces of that rank, of the
  // first call, which stays.
  absl::Status ReadLogs(const v1::ReadLogsRequest& request, Cancellation& cancellation,
                        const OnLogs& on_logs) override {
    Call call;
    {
      MutexLock lock(mutex_);
      requests_.push_back(request);
      if (calls_.empty()) return absl::InternalError("the script is over");
      call = calls_.front();
      if (request.ranks_size() == 0) calls_.pop_front();
    }
    for (v1::ReadLogsResponse& piece : call.pieces) {
      if (request.ranks_size() > 0 && piece.rank() != request.ranks(0)) continue;
      if (!on_logs(std::move(piece))) return absl::OkStatus();
    }
    if (!call.hangs) return call.end;
    grpc::ClientContext context;
    const Cancellation::Scope scope(cancellation, context);
    MutexLock lock(mutex_);
    // Cancellation has no wait of its own; this is a test.
    while (!cancellation.cancelled()) changed_.wait_for(mutex_, std::chrono::milliseconds(5));
    return absl::CancelledError("cancelled");
  }

 private:
  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Call> calls_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::ReadLogsRequest> requests_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster::testing
