// One WatchJob stream. The core merges changes while the client is slow, so that at most one update
// waits here and a client that does not read costs nothing.
#pragma once

#include "common/rpc/outbound_stream.h"
#include "coordinator/rpc/stream_reactor.h"
#include "muster/v1/job.pb.h"

namespace muster {

class WatchStream final : public StreamReactor<grpc::ServerWriteReactor<v1::WatchJobResponse>>,
                          public JobWatcher {
 public:
  WatchStream(const ServiceContext& services, grpc::CallbackServerContext* call, Caller caller,
              JobId job);

  // Reactions.
  void OnWriteDone(bool ok) override;
  void OnCancel() override;

  // JobWatcher; loop only.
  void OnUpdateReady(WatchHandle watch) override;

 private:
  void Begin() override;
  void Ended() override;
  // Sends the next update when there is one and the client is ready for it.
  void SendUpdate();
  void Close(absl::Status status);

  const JobId job_;
  const Caller caller_;
  // Of the loop.
  WatchHandle watch_ = WatchHandle::kNone;
  bool update_ready_ = false;
  bool writing_ = false;
  bool closing_ = false;

  OutboundStream<WatchStream, v1::WatchJobResponse> outbound_{this};
};

}  // namespace muster
