#include "coordinator/daemon/network.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "common/base/annotate.h"
#include "common/crypto/identity.h"
#include "common/log/log.h"
#include "common/trust/renewal.h"
#include "coordinator/rpc/early_authorizer.h"

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
  peers_ = std::make_unique<ClusterPeers>(local, trust_, clock_, revocations_);
  return *peers_;
}

void Network::AddTo(grpc::ServerBuilder& builder, const ServiceContext& services) {
  const std::string& directory = options_.trust_directory;
  const TlsFiles files{.key = CoordinatorKeyPath(directory),
                       .certificates = CoordinatorCertificatePath(directory),
                       .authorities = CaPath(directory)};
  const std::shared_ptr<grpc::ServerCredentials> credentials =
      MakeTlsServerCredentials(files, peers_->HandshakeCheck());
  credentials->SetAuthMetadataProcessor(std::make_shared<EarlyAuthorizer>(*peers_));
  acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials);
  live_calls_ = &services.live_calls;
  office_ = std::make_unique<TrustOffice>(*store_, *audit_, clock_,
                                          [this] { return trust_.Get()->ca().SpkiSha256(); });
  service_ = std::make_unique<TrustServiceImpl>(services, *office_, revocations_, advertised_);
  keeper_ = std::make_unique<TrustKeeper>(directory, trust_, *store_, *audit_, clock_);
  authority_service_ = std::make_unique<AuthorityServiceImpl>(services, trust_, *keeper_);
  member_office_ = std::make_unique<MemberOffice>(trust_, *store_, *audit_, clock_);
  member_service_ =
      std::make_unique<MemberServiceImpl>(services, *member_office_, clock_, advertised_);
  builder.RegisterService(service_.get());
  builder.RegisterService(authority_service_.get());
  builder.RegisterService(member_service_.get());
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
  loop_ = &loop;
  worker_ = std::make_unique<WorkerThread>("trust-keeper");
  KeepLater();
  return absl::OkStatus();
}

void Network::KeepLater() {
  keep_timer_ = loop_->PostAfter(keeper_->Interval(), [this] {
    keep_timer_ = 0;
    worker_->Post([this] {
      Keep();
      loop_->Post([this] {
        if (listener_ != nullptr) KeepLater();
      });
    });
  });
}

void Network::Keep() {
  const absl::Status kept = keeper_->Step();
  if (!kept.ok()) {
    spdlog::error("certificates of the coordinator error={} left={}", LogQuoted(MessageOf(kept)),
                  LogQuoted(LeftText(trust_.Get()->coordinator.not_after(), clock_.WallNow())));
  }
  const size_t cut = live_calls_->CutUnless([this](const std::string& certificate) {
    return peers_->IdentifyCertificate(certificate).ok();
  });
  if (cut > 0) spdlog::info("streams of ended certificates were cut count={}", cut);
}

void Network::StopListening() {
  loop_->Cancel(std::exchange(keep_timer_, 0));
  listener_.reset();
}

void Network::RecordAlarm(const NodeId& node, std::string_view text) {
  const Identity identity{trust_.Get()->cluster_id, IdentityKind::kAgent, node.value()};
  const absl::Status status = audit_->Append({.event = "node-twice",
                                              .decision = "refused",
                                              .who = ToUri(identity),
                                              .object = node.value(),
                                              .detail = std::string(text)},
                                             clock_.WallNow());
  if (!status.ok()) spdlog::error("audit error={}", LogQuoted(MessageOf(status)));
}

}  // namespace muster
