// Calls of MemberService. They block the calling thread, one at a time, for up to 20 s; Cancel ends
// one from any thread.
#pragma once

#include <absl/status/statusor.h>
#include <grpcpp/channel.h>

#include <memory>

#include "common/base/mutex.h"
#include "muster/v1/member.grpc.pb.h"

namespace muster {

class MemberClient {
 public:
  absl::StatusOr<v1::CheckCertificateResponse> Check(const std::shared_ptr<grpc::Channel>& channel,
                                                     const v1::CheckCertificateRequest& request);
  absl::StatusOr<v1::RenewCertificateResponse> Renew(const std::shared_ptr<grpc::Channel>& channel,
                                                     const v1::RenewCertificateRequest& request);
  // Ends the call that runs, and those to come, with CANCELLED.
  void Cancel();

 private:
  template <typename Response, typename Call>
  absl::StatusOr<Response> Make(Call call);

  Mutex mutex_;
  grpc::ClientContext* current_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace muster
