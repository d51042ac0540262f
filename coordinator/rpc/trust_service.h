// TrustService on gRPC. Called by gRPC threads; works on a thread of its own, because it waits for
// the disk.
#pragma once

#include <string>
#include <vector>

#include "common/io/worker_thread.h"
#include "coordinator/rpc/cluster_peers.h"
#include "coordinator/rpc/service_context.h"
#include "coordinator/trust/trust_office.h"
#include "muster/v1/trust.grpc.pb.h"

namespace muster {

class TrustServiceImpl final : public v1::TrustService::CallbackService {
 public:
  // All outlive the server. `addresses`: where to join, as new tokens are told.
  TrustServiceImpl(const ServiceContext& services, TrustOffice& office, Revocations& revocations,
                   std::vector<std::string> addresses);

  grpc::ServerUnaryReactor* CreateToken(grpc::CallbackServerContext* call,
                                        const v1::CreateTokenRequest* request,
                                        v1::CreateTokenResponse* response) override;
  grpc::ServerUnaryReactor* ListTokens(grpc::CallbackServerContext* call,
                                       const v1::ListTokensRequest* request,
                                       v1::ListTokensResponse* response) override;
  grpc::ServerUnaryReactor* DeleteToken(grpc::CallbackServerContext* call,
                                        const v1::DeleteTokenRequest* request,
                                        v1::DeleteTokenResponse* response) override;
  grpc::ServerUnaryReactor* ListMembers(grpc::CallbackServerContext* call,
                                        const v1::ListMembersRequest* request,
                                        v1::ListMembersResponse* response) override;
  grpc::ServerUnaryReactor* RevokeMember(grpc::CallbackServerContext* call,
                                         const v1::RevokeMemberRequest* request,
                                         v1::RevokeMemberResponse* response) override;

 private:
  // Answers with what `act(request, actor)` returns, on the worker.
  template <typename Request, typename Response, typename Act>
  grpc::ServerUnaryReactor* Serve(grpc::CallbackServerContext* call, std::string_view method,
                                  const Request* request, Response* response, Act act);

  const ServiceContext& services_;
  TrustOffice& office_;
  Revocations& revocations_;
  const std::vector<std::string> addresses_;
  // Last: its tasks use everything above.
  WorkerThread worker_{"trust"};
};

}  // namespace muster
