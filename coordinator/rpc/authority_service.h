// AuthorityService on gRPC. Called by gRPC threads; works on a thread of its own, because it waits
// for the disk.
#pragma once

#include "common/io/worker_thread.h"
#include "coordinator/rpc/service_context.h"
#include "coordinator/trust/live_trust.h"
#include "coordinator/trust/trust_keeper.h"
#include "muster/v1/authority.grpc.pb.h"

namespace muster {

class AuthorityServiceImpl final : public v1::AuthorityService::CallbackService {
 public:
  // All outlive the server.
  AuthorityServiceImpl(const ServiceContext& services, const LiveTrust& trust, TrustKeeper& keeper)
      : services_(services), trust_(trust), keeper_(keeper) {}

  grpc::ServerUnaryReactor* GetAuthority(grpc::CallbackServerContext* call,
                                         const v1::GetAuthorityRequest* request,
                                         v1::Authority* response) override;
  grpc::ServerUnaryReactor* RotateAuthority(grpc::CallbackServerContext* call,
                                            const v1::RotateAuthorityRequest* request,
                                            v1::Authority* response) override;

 private:
  absl::StatusOr<v1::Authority> Describe();

  const ServiceContext& services_;
  const LiveTrust& trust_;
  TrustKeeper& keeper_;
  // Last: its tasks use everything above.
  WorkerThread worker_{"authority"};
};

}  // namespace muster
