#include "coordinator/daemon/network.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "common/base/annotate.h"
#include "common/log/log.h"

namespace muster {
namespace {

// That this process may have open.
size_t MostFiles() {
  rlimit files = {};
  return ::getrlimit(RLIMIT_NOFILE, &files) == 0 ? files.rlim_cur : 1024;
}

std::vector<std::string> AdvertisedAt(const std::vector<std::string>& hosts, int port) {
  std::vector<std::string> addresses;
  for (const std::string& host : hosts) {
    addresses.push_back(host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                                            : fmt::format("[{}]:{}", host, port));
  }
  return addresses;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Network>> Network::Open(NetworkOptions options) {
  const SystemClock clock;
  const absl::StatusOr<bool> renewed =
      RenewCoordinatorWhenDue(options.trust_directory, clock.WallNow());
  if (!renewed.ok()) return renewed.status();
  if (*renewed) spdlog::info("the certificate of the coordinator was renewed");
  absl::StatusOr<Trust> trust = LoadTrust(options.trust_directory, clock.WallNow());
  if (!trust.ok()) return trust.status();
  auto network = std::unique_ptr<Network>(new Network(std::move(options), *std::move(trust)));
  const std::string& directory = network->options_.trust_directory;
  absl::StatusOr<std::unique_ptr<TrustStore>> store =
      TrustStore::Open(TrustDatabasePath(directory));
  if (!store.ok()) return store.status();
  network->store_ = *std::move(store);
  absl::StatusOr<std::unique_ptr<AuditLog>> audit = AuditLog::Open(directory + "/audit.jsonl");
  if (!audit.ok()) return audit.status();
  network->audit_ = *std::move(audit);
  const absl::StatusOr<std::vector<std::string>> revoked =
      network->store_->RevokedSerials(clock.WallNow());
  if (!revoked.ok()) return revoked.status();
  network->revocations_.Add(*revoked);
  absl::StatusOr<std::unique_ptr<NetworkListener>> listener = NetworkListener::Listen(
      network->options_.listen, NetworkListener::Limits::ForFiles(MostFiles()));
  if (!listener.ok()) return listener.status();
  network->listener_ = *std::move(listener);
  network->advertised_ = network->options_.advertised;
  if (network->advertised_.empty()) {
    network->advertised_ = AdvertisedAt(HostsOf(directory), network->listener_->port());
  }
  return network;
}

Network::Network(NetworkOptions options, Trust trust)
    : options_(std::move(options)), trust_(std::move(trust)) {}

Network::~Network() = default;

const PeerDirectory& Network::MakePeers(const LocalPeers& local) {
  peers_ = std::make_unique<ClusterPeers>(local, trust_.cluster_id, revocations_);
  return *peers_;
}

void Network::AddTo(grpc::ServerBuilder& builder, const ServiceContext& services) {
  const std::string& directory = options_.trust_directory;
  const TlsFiles files{.key = CoordinatorKeyPath(directory),
                       .certificates = CoordinatorCertificatePath(directory),
                       .authorities = CaPath(directory)};
  acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      MakeTlsServerCredentials(files, peers_->HandshakeCheck()));
  office_ = std::make_unique<TrustOffice>(*store_, *audit_, clock_, trust_.ca().SpkiSha256());
  service_ = std::make_unique<TrustServiceImpl>(services, *office_, revocations_, advertised_);
  builder.RegisterService(service_.get());
}

absl::Status Network::Serve(EventLoop& loop) {
  JoinPolicy policy;
  policy.coordinators = advertised_;
  join_service_ = std::make_unique<JoinService>(trust_, *store_, *audit_, clock_, policy);
  JoinLimits limits;
  limits.connections = std::min(limits.connections, MostFiles() / 8);
  absl::StatusOr<std::unique_ptr<JoinServer>> joins =
      JoinServer::Start(UniqueFd(), trust_, *join_service_, limits);
  if (!joins.ok()) return joins.status();
  join_server_ = *std::move(joins);
  listener_->Serve(
      loop, {.grpc = acceptor_.get(), .join = [this](UniqueFd connection, const std::string& host) {
               join_server_->Adopt(std::move(connection), host);
             }});
  return absl::OkStatus();
}

void Network::StopListening() { listener_.reset(); }

}  // namespace muster
