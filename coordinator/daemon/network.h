// What a coordinator has on the network: the trust of its cluster, the one port, the members that
// come through it and those who want to become some. Made in two steps, around the gRPC server.
#pragma once

#include <absl/status/statusor.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/audit/audit_log.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/io/event_loop.h"
#include "common/io/worker_thread.h"
#include "coordinator/rpc/authority_service.h"
#include "coordinator/rpc/cluster_peers.h"
#include "coordinator/rpc/member_service.h"
#include "coordinator/rpc/network_listener.h"
#include "coordinator/rpc/service_context.h"
#include "coordinator/rpc/trust_service.h"
#include "coordinator/trust/join_server.h"
#include "coordinator/trust/join_service.h"
#include "coordinator/trust/live_trust.h"
#include "coordinator/trust/member_office.h"
#include "coordinator/trust/trust_keeper.h"
#include "coordinator/trust/trust_office.h"
#include "coordinator/trust/trust_store.h"

namespace muster {

struct NetworkOptions {
  // See trust_directory.h.
  std::string trust_directory;
  // Where to listen, as NetworkListener takes it.
  std::string listen;
  // HOST:PORT under which members reach this coordinator; empty: the hosts that the cluster was
  // made with, and the port that it listens on.
  std::vector<std::string> advertised;
};

class Network {
 public:
  // Reads the trust, renews the coordinator's certificate when it is due, and listens. While it
  // serves, the certificate is renewed and a change of the authority goes on.
  static absl::StatusOr<std::unique_ptr<Network>> Open(NetworkOptions options);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  // Where it listens, and where members find it.
  const std::string& address() const { return listener_->address(); }
  const std::vector<std::string>& advertised() const { return advertised_; }
  std::string cluster_id() const { return trust_.Get()->cluster_id; }

  // Who calls. `local` outlives this object. Before the server is built.
  const PeerDirectory& MakePeers(const LocalPeers& local);
  // Adds what comes from the network, and the service that manages trust. After MakePeers;
  // `services` outlives the server.
  void AddTo(grpc::ServerBuilder& builder, const ServiceContext& services);
  // Begins to accept. On the thread of the loop, or before it runs.
  absl::Status Serve(EventLoop& loop);
  // Puts on record that the key of a node is in use twice. On the loop.
  void RecordAlarm(const NodeId& node, std::string_view text);
  // Accepts nothing more. On the loop.
  void StopListening();

 private:
  Network(NetworkOptions options, Trust trust);

  // On the loop: looks after certificates again after a while.
  void KeepLater();
  // On the worker.
  void Keep();

  const NetworkOptions options_;
  LiveTrust trust_;
  SystemClock clock_;
  std::vector<std::string> advertised_;
  std::unique_ptr<TrustStore> store_;
  std::unique_ptr<AuditLog> audit_;
  std::unique_ptr<NetworkListener> listener_;
  Revocations revocations_;
  std::unique_ptr<ClusterPeers> peers_;
  std::unique_ptr<TrustOffice> office_;
  std::unique_ptr<TrustServiceImpl> service_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<JoinService> join_service_;
  std::unique_ptr<JoinServer> join_server_;
  std::unique_ptr<TrustKeeper> keeper_;
  std::unique_ptr<AuthorityServiceImpl> authority_service_;
  std::unique_ptr<MemberOffice> member_office_;
  std::unique_ptr<MemberServiceImpl> member_service_;
  LiveCalls* live_calls_ = nullptr;
  // Of the loop.
  EventLoop* loop_ = nullptr;
  Executor::TimerId keep_timer_ = 0;
  // Last: its tasks use everything above.
  std::unique_ptr<WorkerThread> worker_;
};

}  // namespace muster
