#include "common/rpc/member_channel.h"

#include <fmt/format.h>

#include <utility>

#include "common/crypto/identity.h"

namespace muster {

absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeMemberChannel(
    const Credentials& credentials, const std::string& target, ChannelUse use,
    std::function<void(const TlsPeer&)> met) {
  const TlsMaterial material{.key = credentials.key.ToPem(),
                             .certificates = credentials.certificate.ToPem(),
                             .authorities = ToPem(credentials.ca_bundle)};
  const std::string& cluster = credentials.identity.cluster_id;
  TlsPeerCheck check = [cluster, met = std::move(met)](const TlsPeer& peer) -> absl::Status {
    const absl::StatusOr<Identity> identity = IdentityOfUris(peer.uris);
    if (!identity.ok()) return identity.status();
    if (identity->kind == IdentityKind::kCoordinator && identity->cluster_id == cluster) {
      if (met) met(peer);
      return absl::OkStatus();
    }
    return absl::PermissionDeniedError(
        fmt::format("{} is no coordinator of cluster {}", ToUri(*identity), cluster));
  };
  return MakeChannel(target, use, MakeTlsChannelCredentials(material, std::move(check)));
}

Dialer MemberDialer(CredentialsDirectory directory, std::string target,
                    std::function<void(const TlsPeer&)> met) {
  auto next = std::make_shared<size_t>(0);
  return [directory = std::move(directory), target = std::move(target), met = std::move(met),
          next](ChannelUse use) -> absl::StatusOr<std::shared_ptr<grpc::Channel>> {
    const absl::StatusOr<Credentials> credentials = directory.Load();
    if (!credentials.ok()) return credentials.status();
    if (!target.empty()) return MakeMemberChannel(*credentials, target, use, met);
    if (credentials->coordinators.empty()) {
      return absl::FailedPreconditionError(
          "the credentials name no coordinator: say where it is with --coordinator HOST:PORT");
    }
    // Output goes where the control connection went, which is there: the other addresses may be
    // none that this node reaches.
    const bool logs = use == ChannelUse::kLogs && *next > 0;
    const size_t turn = logs ? *next - 1 : (*next)++;
    return MakeMemberChannel(
        *credentials, credentials->coordinators[turn % credentials->coordinators.size()], use, met);
  };
}

}  // namespace muster
