// A JobService whose jobs the test plays: it publishes states, appends output and sees what was
// asked for. Thread-safe.
#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "coordinator/cli/client.h"
#include "coordinator/cli/exit_status.h"
#include "muster/v1/job.grpc.pb.h"

namespace muster::testing {

class FakeJobService final : public v1::JobService::Service {
 public:
  FakeJobService() {
    grpc::ServerBuilder builder;
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~FakeJobService() override {
    {
      MutexLock lock(mutex_);
      over_ = true;
      changed_.notify_all();
    }
    server_->Shutdown(std::chrono::system_clock::now());
  }

  Client MakeClient() {
    return Client(server_->InProcessChannel({}), server_->InProcessChannel({}));
  }

  // --- What the test does ---
  void Publish(const v1::Job& job) {
    MutexLock lock(mutex_);
    states_.push_back(job);
    changed_.notify_all();
  }
  void Append(uint32_t rank, const std::string& frames) {
    MutexLock lock(mutex_);
    logs_[rank] += frames;
    changed_.notify_all();
  }
  // No more output comes.
  void EndLogs() {
    MutexLock lock(mutex_);
    logs_ended_ = true;
    changed_.notify_all();
  }
  // Ends watches and logs with UNAVAILABLE, once.
  void Break() {
    MutexLock lock(mutex_);
    ++breaks_;
    changed_.notify_all();
  }
  // Ends the next calls of either kind as a coordinator does that is told to end.
  void CancelCalls(int count) {
    MutexLock lock(mutex_);
    calls_to_cancel_ = count;
  }
  // The newest one.
  v1::ReadLogsRequest log_request() const {
    MutexLock lock(mutex_);
    return log_request_;
  }
  std::vector<v1::CancelJobRequest> cancels() const {
    MutexLock lock(mutex_);
    return cancels_;
  }

  // --- JobService ---
  grpc::Status SubmitJob(grpc::ServerContext*, const v1::SubmitJobRequest*, v1::Job* job) override {
    MutexLock lock(mutex_);
    if (calls_to_cancel_ > 0 && calls_to_cancel_-- > 0) return grpc::Status::CANCELLED;
    job->set_job_id("j1");
    return grpc::Status::OK;
  }
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest*, v1::Job* job) override {
    MutexLock lock(mutex_);
    if (states_.empty()) return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such job");
    *job = states_.back();
    return grpc::Status::OK;
  }
  grpc::Status CancelJob(grpc::ServerContext*, const v1::CancelJobRequest* request,
                         v1::Job* job) override {
    MutexLock lock(mutex_);
    cancels_.push_back(*request);
    *job = states_.back();
    return grpc::Status::OK;
  }
  grpc::Status WatchJob(grpc::ServerContext* context, const v1::WatchJobRequest*,
                        grpc::ServerWriter<v1::WatchJobResponse>* writer) override {
    size_t next = 0;
    MutexLock lock(mutex_);
    if (calls_to_cancel_ > 0 && calls_to_cancel_-- > 0) return grpc::Status::CANCELLED;
    const int breaks = breaks_;
    for (;;) {
      if (over_ || breaks_ != breaks) return Gone();
      if (context->IsCancelled()) return grpc::Status::CANCELLED;
      if (next < states_.size()) {
        // A new watch begins with the newest state.
        if (next == 0) next = states_.size() - 1;
        v1::WatchJobResponse response;
        *response.mutable_job() = states_[next++];
        writer->Write(response);
        if (IsTerminal(response.job())) return grpc::Status::OK;
      } else {
        changed_.wait_for(mutex_, std::chrono::milliseconds(20));
      }
    }
  }
  grpc::Status ReadLogs(grpc::ServerContext* context, const v1::ReadLogsRequest* request,
                        grpc::ServerWriter<v1::ReadLogsResponse>* writer) override {
    std::map<uint32_t, uint64_t> sent;
    MutexLock lock(mutex_);
    log_request_ = *request;
    const int breaks = breaks_;
    for (;;) {
      if (over_ || breaks_ != breaks) return Gone();
      if (context->IsCancelled()) return grpc::Status::CANCELLED;
      const bool last = !request->follow() || logs_ended_;
      for (const auto& [rank, bytes] : logs_) {
        if (request->ranks_size() > 0 && request->ranks(0) != rank) continue;
        if (sent[rank] == bytes.size() && !last) continue;
        v1::ReadLogsResponse response;
        response.set_rank(rank);
        response.set_attempt(1);
        response.set_offset(sent[rank]);
        response.set_data(bytes.substr(sent[rank]));
        response.set_end(last);
        sent[rank] = bytes.size();
        writer->Write(response);
      }
      if (last) return grpc::Status::OK;
      changed_.wait_for(mutex_, std::chrono::milliseconds(20));
    }
  }

 private:
  static grpc::Status Gone() { return {grpc::StatusCode::UNAVAILABLE, "the coordinator is gone"}; }

  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<v1::Job> states_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, std::string> logs_ ABSL_GUARDED_BY(mutex_);
  bool logs_ended_ ABSL_GUARDED_BY(mutex_) = false;
  v1::ReadLogsRequest log_request_ ABSL_GUARDED_BY(mutex_);
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  int breaks_ ABSL_GUARDED_BY(mutex_) = 0;
  int calls_to_cancel_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<v1::CancelJobRequest> cancels_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace muster::testing
