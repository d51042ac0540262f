#include "coordinator/rpc/job_service.h"

#include <fmt/format.h>

#include "common/rpc/limits.h"
#include "coordinator/rpc/log_reader.h"
#include "coordinator/rpc/unary_call.h"
#include "coordinator/rpc/watch_stream.h"

namespace muster {
namespace {

absl::Status CheckSize(const v1::JobSpec& spec) {
  const size_t bytes = spec.ByteSizeLong();
  if (bytes <= kMaxJobSpecBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "the job has {} bytes with its environment and arguments, at most {} are allowed: "
      "put large values into a file that the ranks read",
      bytes, kMaxJobSpecBytes));
}

// Answers with the job and the sizes of its stored logs, which may have to be looked up on disk.
template <typename Done>
void AddLogSizes(LogStore& logs, v1::Job job, Done done) {
  if (job.ranks().empty()) return done(std::move(job));
  logs.PostRead([&logs, job = std::move(job), done = std::move(done)]() mutable {
    const AttemptId attempt{JobId(job.job_id()), job.attempt()};
    for (v1::JobRank& rank : *job.mutable_ranks()) {
      rank.set_stored_log_bytes(logs.CommittedSize({attempt, Rank{rank.rank()}}));
    }
    done(std::move(job));
  });
}

}  // namespace

JobServiceImpl::JobServiceImpl(const ServiceContext& services, LogReaderHub& hub)
    : services_(services), hub_(hub) {
  using grpc::internal::CallbackUnaryHandler;
  // In the order of the proto, as the generated code counts them.
  MarkMethodRawCallback(
      0, new CallbackUnaryHandler<grpc::ByteBuffer, v1::Job>(
             [this](grpc::CallbackServerContext* call, const grpc::ByteBuffer* request,
                    v1::Job* response) { return Submit(call, request, response); }));
  MarkMethodRawCallback(
      1, new CallbackUnaryHandler<grpc::ByteBuffer, v1::Plan>(
             [this](grpc::CallbackServerContext* call, const grpc::ByteBuffer* request,
                    v1::Plan* response) { return Plan(call, request, response); }));
}

grpc::ServerUnaryReactor* JobServiceImpl::Submit(grpc::CallbackServerContext* call,
                                                 const grpc::ByteBuffer* request,
                                                 v1::Job* response) {
  return ServeUnaryBytes<v1::SubmitJobRequest>(
      services_, call, "/muster.v1.JobService/SubmitJob", request, response,
      [this](v1::SubmitJobRequest asked, const Peer& peer, auto done) {
        const absl::Status size = CheckSize(asked.spec());
        if (!size.ok()) return done(size);
        services_.core.SubmitJob(std::move(asked), CallerOf(peer),
                                 [this, done = std::move(done)](absl::StatusOr<v1::Job> job) {
                                   if (job.ok() && services_.on_job_accepted) {
                                     services_.on_job_accepted(JobId(job->job_id()));
                                   }
                                   done(std::move(job));
                                 });
      });
}

grpc::ServerUnaryReactor* JobServiceImpl::Plan(grpc::CallbackServerContext* call,
                                               const grpc::ByteBuffer* request,
                                               v1::Plan* response) {
  return ServeUnaryBytes<v1::PlanJobRequest>(
      services_, call, "/muster.v1.JobService/PlanJob", request, response,
      [this](v1::PlanJobRequest asked, const Peer& peer, auto done) {
        const absl::Status size = CheckSize(asked.spec());
        if (!size.ok()) return done(size);
        services_.core.PlanJob(std::move(asked), CallerOf(peer), std::move(done));
      });
}

grpc::ServerUnaryReactor* JobServiceImpl::GetJob(grpc::CallbackServerContext* call,
                                                 const v1::GetJobRequest* request,
                                                 v1::Job* response) {
  return ServeUnary(services_, call, "/muster.v1.JobService/GetJob", request, response,
                    [this](v1::GetJobRequest asked, const Peer& peer, auto done) {
                      services_.core.GetJob(
                          std::move(asked), CallerOf(peer),
                          [this, done = std::move(done)](absl::StatusOr<v1::Job> job) mutable {
                            if (!job.ok()) return done(std::move(job));
                            AddLogSizes(services_.logs, *std::move(job), std::move(done));
                          });
                    });
}

grpc::ServerUnaryReactor* JobServiceImpl::ListJobs(grpc::CallbackServerContext* call,
                                                   const v1::ListJobsRequest* request,
                                                   v1::ListJobsResponse* response) {
  return ServeUnary(services_, call, "/muster.v1.JobService/ListJobs", request, response,
                    [this](v1::ListJobsRequest asked, const Peer& peer, auto done) {
                      services_.core.ListJobs(std::move(asked), CallerOf(peer), std::move(done));
                    });
}

grpc::ServerUnaryReactor* JobServiceImpl::CancelJob(grpc::CallbackServerContext* call,
                                                    const v1::CancelJobRequest* request,
                                                    v1::Job* response) {
  return ServeUnary(services_, call, "/muster.v1.JobService/CancelJob", request, response,
                    [this](v1::CancelJobRequest asked, const Peer& peer, auto done) {
                      services_.core.CancelJob(std::move(asked), CallerOf(peer), std::move(done));
                    });
}

grpc::ServerUnaryReactor* JobServiceImpl::SignalJob(grpc::CallbackServerContext* call,
                                                    const v1::SignalJobRequest* request,
                                                    v1::SignalJobResponse* response) {
  return ServeUnary(services_, call, "/muster.v1.JobService/SignalJob", request, response,
                    [this](v1::SignalJobRequest asked, const Peer& peer, auto done) {
                      services_.core.SignalJob(std::move(asked), CallerOf(peer), std::move(done));
                    });
}

grpc::ServerWriteReactor<v1::WatchJobResponse>* JobServiceImpl::WatchJob(
    grpc::CallbackServerContext* call, const v1::WatchJobRequest* request) {
  constexpr char kMethod[] = "/muster.v1.JobService/WatchJob";
  const Peer peer = Authorize(services_, *call, kMethod);
  if (peer.role == Role::kNobody) {
    return new RefusedStream<grpc::ServerWriteReactor<v1::WatchJobResponse>>(Denied(kMethod, peer));
  }
  return ServeStream<WatchStream>(peer, services_, call, CallerOf(peer), JobId(request->job_id()));
}

grpc::ServerWriteReactor<v1::ReadLogsResponse>* JobServiceImpl::ReadLogs(
    grpc::CallbackServerContext* call, const v1::ReadLogsRequest* request) {
  constexpr char kMethod[] = "/muster.v1.JobService/ReadLogs";
  const Peer peer = Authorize(services_, *call, kMethod);
  if (peer.role == Role::kNobody) {
    return new RefusedStream<grpc::ServerWriteReactor<v1::ReadLogsResponse>>(Denied(kMethod, peer));
  }
  return ServeStream<LogReader>(peer, services_, call, CallerOf(peer), *request, hub_);
}

}  // namespace muster
