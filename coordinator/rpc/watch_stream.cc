#include "coordinator/rpc/watch_stream.h"

#include <utility>

#include "common/rpc/grpc_status.h"

namespace muster {

WatchStream::WatchStream(const ServiceContext& services, grpc::CallbackServerContext* call,
                         Caller caller, JobId job)
    : StreamReactor(services, call), job_(std::move(job)), caller_(std::move(caller)) {}

void WatchStream::Begin() {
  absl::StatusOr<WatchHandle> watch = services().core.WatchJob(job_, caller_, this);
  if (!watch.ok()) {
    Close(watch.status());
    return;
  }
  watch_ = *watch;
}

void WatchStream::OnUpdateReady(WatchHandle) {
  update_ready_ = true;
  SendUpdate();
}

void WatchStream::SendUpdate() {
  if (!update_ready_ || writing_ || closing_) return;
  update_ready_ = false;
  std::optional<JobUpdate> update = services().core.TakeUpdate(watch_);
  if (!update.has_value()) return;
  v1::WatchJobResponse response;
  *response.mutable_job() = std::move(update->job);
  writing_ = true;
  if (outbound_.Send(std::move(response)) != SendResult::kQueued) CancelCall();
  if (!update->last) return;
  watch_ = WatchHandle::kNone;
  // Without a limit: whoever waits for the end of a job may take its time to read it.
  closing_ = true;
  outbound_.CloseAfterFlush([this](bool) { FinishCall(grpc::Status::OK); });
}

void WatchStream::OnWriteDone(bool ok) {
  outbound_.OnWriteDone(ok);
  OnLoop([this, ok] {
    writing_ = false;
    if (ok) {
      SendUpdate();
    } else {
      Close(absl::CancelledError());
    }
  });
}

void WatchStream::OnCancel() {
  OnLoop([this] { Close(absl::CancelledError()); });
}

void WatchStream::Close(absl::Status status) {
  if (std::exchange(closing_, true)) return;
  outbound_.Close([this, status = ToGrpc(status)](bool) { FinishCall(status); });
}

void WatchStream::Ended() {
  if (watch_ != WatchHandle::kNone) services().core.Unwatch(watch_);
}

}  // namespace muster
