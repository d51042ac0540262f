#include "coordinator/rpc/cluster_peers.h"

#include <fmt/format.h>
#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/auth_context.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

#include "common/base/annotate.h"
#include "common/base/rate_limit.h"
#include "common/crypto/certificate.h"
#include "common/crypto/identity.h"
#include "common/crypto/verify.h"
#include "common/log/log.h"

namespace muster {
namespace {

// The peer's certificate; empty when the connection is none of TLS.
std::string CertificateOf(const grpc::CallbackServerContext& call) {
  const std::shared_ptr<const grpc::AuthContext> context = call.auth_context();
  if (context == nullptr || !context->IsPeerAuthenticated()) return "";
  const std::vector<grpc::string_ref> certificates =
      context->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  return certificates.size() == 1 ? std::string(certificates[0].data(), certificates[0].size())
                                  : "";
}

Role RoleOf(IdentityKind kind) {
  switch (kind) {
    case IdentityKind::kAgent:
      return Role::kAgent;
    case IdentityKind::kUser:
      return Role::kSubmitter;
    case IdentityKind::kAdmin:
      return Role::kAdmin;
    case IdentityKind::kCoordinator:
      break;
  }
  return Role::kNobody;
}

}  // namespace

void Revocations::Add(const std::vector<std::string>& serials) {
  MutexLock lock(mutex_);
  serials_.insert(serials.begin(), serials.end());
}

bool Revocations::Contains(const std::string& serial) const {
  MutexLock lock(mutex_);
  return serials_.contains(serial);
}

ClusterPeers::ClusterPeers(const LocalPeers& local, const LiveTrust& trust, const Clock& clock,
                           const Revocations& revocations)
    : local_(local), trust_(trust), clock_(clock), revocations_(revocations) {}

Peer ClusterPeers::Identify(const grpc::CallbackServerContext& call) const {
  const std::string certificate = CertificateOf(call);
  if (certificate.empty()) return local_.Identify(call);
  // Again, although the handshake looked: it may have ended or been revoked since.
  absl::StatusOr<Peer> peer = IdentifyCertificate(certificate);
  return peer.ok() ? *std::move(peer) : Peer{};
}

absl::StatusOr<Peer> ClusterPeers::IdentifyCertificate(const std::string& pem) const {
  const absl::StatusOr<Certificate> certificate = Certificate::FromPem(pem);
  if (!certificate.ok()) return absl::PermissionDeniedError(certificate.status().message());
  const absl::StatusOr<Identity> identity = IdentityOf(*certificate);
  if (!identity.ok()) return identity.status();
  Peer peer;
  peer.serial = certificate->serial();
  peer.certificate = pem;
  const std::shared_ptr<const Trust> trust = trust_.Get();
  if (identity->cluster_id != trust->cluster_id) {
    return absl::PermissionDeniedError(
        fmt::format("{} is of another cluster than {}", ToUri(*identity), trust->cluster_id));
  }
  const absl::Status valid =
      VerifyCertificate(*certificate, trust->ca_bundle, CertificateUse::kClient, clock_.WallNow());
  if (!valid.ok()) return Annotate(valid, ToUri(*identity));
  if (revocations_.Contains(peer.serial)) {
    return absl::PermissionDeniedError(
        fmt::format("the certificate of {} was revoked", ToUri(*identity)));
  }
  peer.role = RoleOf(identity->kind);
  if (peer.role == Role::kNobody) {
    return absl::PermissionDeniedError(
        fmt::format("{} may not call a coordinator", ToUri(*identity)));
  }
  if (peer.role == Role::kAgent) {
    peer.node = NodeId(identity->name);
  } else {
    peer.user = identity->name;
  }
  return peer;
}

TlsPeerCheck ClusterPeers::HandshakeCheck() const {
  return [this](const TlsPeer& peer) {
    const absl::Status status = IdentifyCertificate(peer.certificate).status();
    // One that was shut out comes back as often as it likes.
    static auto* const limit = new RateLimit(20, std::chrono::seconds(10));
    if (!status.ok() && limit->Allows(std::chrono::steady_clock::now())) {
      spdlog::warn("peer refused reason={} left_out={}", LogQuoted(MessageOf(status)),
                   limit->TakeHeldBack());
    }
    return status;
  };
}

}  // namespace muster
