// Denies calls on the network before anything that the caller sends is read: gRPC parses the
// request of a call before its handler runs, which could otherwise refuse it only when a hostile
// message has taken its memory. The handlers ask again (service_context.h), which also counts for
// calls that do not come through here. Thread-safe.
#pragma once

#include <grpcpp/security/auth_metadata_processor.h>

#include "coordinator/rpc/cluster_peers.h"

namespace muster {

class EarlyAuthorizer final : public grpc::AuthMetadataProcessor {
 public:
  // `peers` outlives this object.
  explicit EarlyAuthorizer(const ClusterPeers& peers) : peers_(peers) {}

  // It only looks things up.
  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* context,
                       OutputMetadata* consumed, OutputMetadata* response) override;

 private:
  const ClusterPeers& peers_;
};

}  // namespace muster
