// MemberService on gRPC: members about their own certificates. Called by gRPC threads; works on a
// thread of its own, because it waits for the disk.
#pragma once

#include <string>
#include <vector>

#include "common/io/worker_thread.h"
#include "coordinator/rpc/service_context.h"
#include "coordinator/trust/member_office.h"
#include "muster/v1/member.grpc.pb.h"

namespace muster {

class MemberServiceImpl final : public v1::MemberService::CallbackService {
 public:
  // All outlive the server. `addresses`: where members find coordinators.
  MemberServiceImpl(const ServiceContext& services, MemberOffice& office, const Clock& clock,
                    std::vector<std::string> addresses);

  grpc::ServerUnaryReactor* CheckCertificate(grpc::CallbackServerContext* call,
                                             const v1::CheckCertificateRequest* request,
                                             v1::CheckCertificateResponse* response) override;
  grpc::ServerUnaryReactor* RenewCertificate(grpc::CallbackServerContext* call,
                                             const v1::RenewCertificateRequest* request,
                                             v1::RenewCertificateResponse* response) override;

 private:
  // Answers with what `act(request, asker)` returns, on the worker.
  template <typename Request, typename Response, typename Act>
  grpc::ServerUnaryReactor* Serve(grpc::CallbackServerContext* call, std::string_view method,
                                  const Request* request, Response* response, Act act);

  const ServiceContext& services_;
  MemberOffice& office_;
  const Clock& clock_;
  const std::vector<std::string> addresses_;
  // Last: its tasks use everything above.
  WorkerThread worker_{"members"};
};

}  // namespace muster
