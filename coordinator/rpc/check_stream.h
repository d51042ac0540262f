// One CheckNodes stream. What is found is queued as it comes: its amount is bounded by the number
// of nodes and pairs that were asked for.
#pragma once

#include "common/rpc/outbound_stream.h"
#include "coordinator/rpc/stream_reactor.h"
#include "muster/v1/node.pb.h"

namespace muster {

class CheckStream final : public StreamReactor<grpc::ServerWriteReactor<v1::CheckNodesResponse>>,
                          public CheckListener {
 public:
  CheckStream(const ServiceContext& services, grpc::CallbackServerContext* call, Caller caller,
              v1::CheckNodesRequest request);

  // Reactions.
  void OnWriteDone(bool ok) override;
  void OnCancel() override;

  // CheckListener; loop only.
  void OnFound(v1::CheckNodesResponse found) override;
  void OnChecked(const absl::Status& status) override;

 private:
  void Begin() override;
  void Ended() override;
  void Close(const absl::Status& status);

  v1::CheckNodesRequest request_;
  const Caller caller_;
  // Of the loop.
  CheckHandle check_ = CheckHandle::kNone;
  bool closing_ = false;

  OutboundStream<CheckStream, v1::CheckNodesResponse> outbound_{
      this, {.max_messages = 1'000'000, .max_bytes = size_t{64} << 20}};
};

}  // namespace muster
