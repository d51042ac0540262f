#include "coordinator/rpc/check_stream.h"

#include <utility>

#include "common/rpc/grpc_status.h"

namespace muster {

CheckStream::CheckStream(const ServiceContext& services, grpc::CallbackServerContext* call,
                         Caller caller, v1::CheckNodesRequest request)
    : StreamReactor(services, call), request_(std::move(request)), caller_(std::move(caller)) {}

void CheckStream::Begin() {
  const absl::StatusOr<CheckHandle> check =
      services().core.CheckNodes(std::move(request_), caller_, this);
  if (!check.ok()) return Close(check.status());
  check_ = *check;
}

void CheckStream::OnFound(v1::CheckNodesResponse found) {
  if (closing_) return;
  // Whoever does not read what was asked for wants none of it.
  if (outbound_.Send(std::move(found)) != SendResult::kQueued) CancelCall();
}

void CheckStream::OnChecked(const absl::Status& status) {
  check_ = CheckHandle::kNone;
  if (!status.ok()) return Close(status);
  if (std::exchange(closing_, true)) return;
  outbound_.CloseAfterFlush([this](bool) { FinishCall(grpc::Status::OK); });
}

void CheckStream::OnWriteDone(bool ok) {
  outbound_.OnWriteDone(ok);
  if (ok) return;
  OnLoop([this] { Close(absl::CancelledError()); });
}

void CheckStream::OnCancel() {
  OnLoop([this] { Close(absl::CancelledError()); });
}

void CheckStream::Close(const absl::Status& status) {
  if (std::exchange(closing_, true)) return;
  outbound_.Close([this, told = ToGrpc(status)](bool) { FinishCall(told); });
}

void CheckStream::Ended() {
  if (check_ != CheckHandle::kNone) services().core.CancelCheck(check_);
}

}  // namespace muster
