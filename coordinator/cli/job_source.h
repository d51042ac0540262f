// Where a job is looked at: a coordinator over gRPC, or the folder that a local job left behind.
// All methods block and may be called from several threads at once. Errors name no address: the
// caller knows where it looked.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <grpcpp/client_context.h>

#include <functional>

#include "common/base/mutex.h"
#include "muster/v1/job.pb.h"

namespace muster {

// Lets one thread end calls that block on another. Thread-safe; once cancelled it stays so.
class Cancellation {
 public:
  void Cancel();
  bool cancelled() const;

  // Around one call: `Cancel` cancels it while it is attached.
  class Scope {
   public:
    Scope(Cancellation& owner, grpc::ClientContext& context);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Cancellation& owner_;
  };

 private:
  mutable Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::ClientContext* current_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

class JobSource {
 public:
  // Returning false ends the stream, which then counts as good.
  using OnJob = std::function<bool(v1::Job)>;
  using OnLogs = std::function<bool(v1::ReadLogsResponse)>;

  virtual ~JobSource() = default;
  virtual absl::StatusOr<v1::Job> GetJob(const std::string& job_id) = 0;
  // Gives the job, then its changes; see JobView. OK after the terminal state.
  virtual absl::Status WatchJob(const std::string& job_id, Cancellation& cancellation,
                                const OnJob& on_job) = 0;
  virtual absl::Status ReadLogs(const v1::ReadLogsRequest& request, Cancellation& cancellation,
                                const OnLogs& on_logs) = 0;
};

}  // namespace muster
