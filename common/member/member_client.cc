#include "common/member/member_client.h"

#include <chrono>

#include "common/rpc/grpc_status.h"

namespace muster {
namespace {

constexpr std::chrono::seconds kLimit{20};

}  // namespace

template <typename Response, typename Call>
absl::StatusOr<Response> MemberClient::Make(Call call) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kLimit);
  {
    MutexLock lock(mutex_);
    if (cancelled_) return absl::CancelledError("the program ends");
    current_ = &context;
  }
  Response response;
  const grpc::Status status = call(&context, &response);
  {
    MutexLock lock(mutex_);
    current_ = nullptr;
  }
  if (!status.ok()) return FromGrpc(status);
  return response;
}

absl::StatusOr<v1::CheckCertificateResponse> MemberClient::Check(
    const std::shared_ptr<grpc::Channel>& channel, const v1::CheckCertificateRequest& request) {
  const auto stub = v1::MemberService::NewStub(channel);
  return Make<v1::CheckCertificateResponse>([&](auto* context, auto* response) {
    return stub->CheckCertificate(context, request, response);
  });
}

absl::StatusOr<v1::RenewCertificateResponse> MemberClient::Renew(
    const std::shared_ptr<grpc::Channel>& channel, const v1::RenewCertificateRequest& request) {
  const auto stub = v1::MemberService::NewStub(channel);
  return Make<v1::RenewCertificateResponse>([&](auto* context, auto* response) {
    return stub->RenewCertificate(context, request, response);
  });
}

void MemberClient::Cancel() {
  MutexLock lock(mutex_);
  cancelled_ = true;
  if (current_ != nullptr) current_->TryCancel();
}

}  // namespace muster
