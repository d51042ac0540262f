// Peers of the network, by their certificates. Thread-safe.
#pragma once

#include <absl/container/flat_hash_set.h>
#include <absl/status/status.h>

#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/rpc/tls.h"
#include "coordinator/rpc/peers.h"
#include "coordinator/trust/live_trust.h"

namespace muster {

// Serial numbers of certificates that are not good any more although the cluster made them.
class Revocations {
 public:
  void Add(const std::vector<std::string>& serials);
  bool Contains(const std::string& serial) const;

 private:
  mutable Mutex mutex_;
  absl::flat_hash_set<std::string> serials_ ABSL_GUARDED_BY(mutex_);
};

// Those whose certificate names an agent, a user or an admin of this cluster, and is not revoked;
// and the peers of this machine. Everybody else is nobody.
class ClusterPeers final : public PeerDirectory {
 public:
  // All outlive this object.
  ClusterPeers(const LocalPeers& local, const LiveTrust& trust, const Clock& clock,
               const Revocations& revocations);

  Peer Identify(const grpc::CallbackServerContext& call) const override;
  // The owner of a certificate. PERMISSION_DENIED with the reason for whoever may do nothing here,
  // FAILED_PRECONDITION when the certificate is not valid now.
  absl::StatusOr<Peer> IdentifyCertificate(const std::string& pem) const;
  // Ends the handshakes of those.
  TlsPeerCheck HandshakeCheck() const;

 private:
  const LocalPeers& local_;
  const LiveTrust& trust_;
  const Clock& clock_;
  const Revocations& revocations_;
};

}  // namespace muster
