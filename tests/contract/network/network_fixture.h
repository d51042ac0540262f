// A coordinator with a cluster, reached through its network port on the loopback interface.
#pragma once

#include <gmock/gmock.h>

#include <memory>
#include <optional>
#include <string>

#include "common/crypto/issuer.h"
#include "common/rpc/member_channel.h"
#include "common/rpc/tls.h"
#include "coordinator/daemon/network.h"
#include "tests/contract/rpc/rpc_world.h"

namespace muster {

class NetworkTest : public RpcWorld {
 protected:
  CoordinatorConfig Config() override {
    CoordinatorConfig config = RpcWorld::Config();
    const std::string directory = folder_ + "/trust";
    if (!trust_.has_value()) {
      absl::StatusOr<Trust> trust = InitTrust(
          directory, {.hosts = {"127.0.0.1", "localhost"}, .certificate_life = life_}, now_);
      EXPECT_TRUE(trust.ok()) << trust.status();
      trust_ = *std::move(trust);
    }
    absl::StatusOr<std::unique_ptr<Network>> network =
        Network::Open({.trust_directory = directory, .listen = "127.0.0.1:0"});
    EXPECT_TRUE(network.ok()) << network.status();
    address_ = (*network)->address();
    config.network = *std::move(network);
    return config;
  }
  uint16_t port() const {
    return static_cast<uint16_t>(std::stoi(address_.substr(address_.rfind(':') + 1)));
  }

  // Credentials that the cluster's CA made for somebody it does not know of.
  Credentials Made(const Identity& identity, Duration begins = -std::chrono::hours(1),
                   Duration ends = std::chrono::hours(1)) {
    return MadeBy(trust_->ca(), trust_->ca_key, identity, begins, ends);
  }
  Credentials MadeBy(const Certificate& ca, const PrivateKey& ca_key, const Identity& identity,
                     Duration begins = -std::chrono::hours(1),
                     Duration ends = std::chrono::hours(1)) {
    PrivateKey key = PrivateKey::Generate();
    absl::StatusOr<Certificate> certificate = Issue(ca, ca_key, key.public_key(),
                                                    {.identity = identity,
                                                     .client = true,
                                                     .not_before = now_ + begins,
                                                     .not_after = now_ + ends});
    EXPECT_TRUE(certificate.ok()) << certificate.status();
    return {.key = std::move(key),
            .certificate = *std::move(certificate),
            .ca_bundle = trust_->ca_bundle,
            .identity = identity,
            .coordinators = {address_}};
  }
  Identity Of(IdentityKind kind, const std::string& name) const {
    return {trust_->cluster_id, kind, name};
  }
  std::shared_ptr<grpc::Channel> Dial(const Credentials& credentials) {
    absl::StatusOr<std::shared_ptr<grpc::Channel>> channel =
        MakeMemberChannel(credentials, address_, ChannelUse::kControl);
    EXPECT_TRUE(channel.ok()) << channel.status();
    return *std::move(channel);
  }

  std::chrono::seconds life_ = kCertificateLife;
  const WallTime now_ = SystemClock().WallNow();
  std::optional<Trust> trust_;
  std::string address_;
};

}  // namespace muster
