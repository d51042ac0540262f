// JobService on gRPC. Called by gRPC threads; everything happens on the loop. Jobs come as bytes,
// so that none is parsed that would take too much memory.
#pragma once

#include "coordinator/rpc/log_reader_hub.h"
#include "coordinator/rpc/service_context.h"
#include "muster/v1/job.grpc.pb.h"

namespace muster {

class JobServiceImpl final : public v1::JobService::CallbackService {
 public:
  // `services` and `hub` outlive the server.
  JobServiceImpl(const ServiceContext& services, LogReaderHub& hub);

  grpc::ServerUnaryReactor* GetJob(grpc::CallbackServerContext* call,
                                   const v1::GetJobRequest* request, v1::Job* response) override;
  grpc::ServerUnaryReactor* ListJobs(grpc::CallbackServerContext* call,
                                     const v1::ListJobsRequest* request,
                                     v1::ListJobsResponse* response) override;
  grpc::ServerUnaryReactor* CancelJob(grpc::CallbackServerContext* call,
                                      const v1::CancelJobRequest* request,
                                      v1::Job* response) override;
  grpc::ServerUnaryReactor* SignalJob(grpc::CallbackServerContext* call,
                                      const v1::SignalJobRequest* request,
                                      v1::SignalJobResponse* response) override;
  grpc::ServerWriteReactor<v1::WatchJobResponse>* WatchJob(
      grpc::CallbackServerContext* call, const v1::WatchJobRequest* request) override;
  grpc::ServerWriteReactor<v1::ReadLogsResponse>* ReadLogs(
      grpc::CallbackServerContext* call, const v1::ReadLogsRequest* request) override;

 private:
  grpc::ServerUnaryReactor* Submit(grpc::CallbackServerContext* call,
                                   const grpc::ByteBuffer* request, v1::Job* response);
  grpc::ServerUnaryReactor* Plan(grpc::CallbackServerContext* call, const grpc::ByteBuffer* request,
                                 v1::Plan* response);

  const ServiceContext& services_;
  LogReaderHub& hub_;
};

}  // namespace muster
