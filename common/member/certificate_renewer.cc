#include "common/member/certificate_renewer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "common/base/annotate.h"
#include "common/base/utc.h"
#include "common/base/version.h"
#include "common/crypto/csr.h"
#include "common/crypto/encoding.h"
#include "common/crypto/issuer.h"
#include "common/trust/join_client.h"

namespace muster {
namespace {

constexpr std::chrono::seconds kRejoinTime{10};

WallTime TimeOf(const google::protobuf::Timestamp& time) {
  return WallTime(std::chrono::seconds(time.seconds())) +
         std::chrono::duration_cast<WallTime::duration>(std::chrono::nanoseconds(time.nanos()));
}

// What the coordinator handed out, once it is what was asked for.
absl::StatusOr<Credentials> Received(const v1::RenewCertificateResponse& response,
                                     const Credentials& before, const PrivateKey& key,
                                     WallTime now) {
  const auto wrong = [](std::string_view what) {
    return absl::InternalError(
        fmt::format("the coordinator's new certificate is not kept: {}", what));
  };
  const auto certificate = Certificate::FromPem(response.certificate_pem());
  if (!certificate.ok()) return wrong(MessageOf(certificate.status()));
  auto bundle = Certificate::ParseBundle(response.ca_bundle_pem());
  if (!bundle.ok()) return wrong(MessageOf(bundle.status()));
  Credentials received{key,
                       *certificate,
                       *std::move(bundle),
                       before.identity,
                       {response.coordinators().begin(), response.coordinators().end()}};
  for (const std::string& coordinator : received.coordinators) {
    if (const absl::Status address = CheckTarget(coordinator); !address.ok()) {
      return wrong(MessageOf(address));
    }
  }
  if (received.coordinators.empty()) received.coordinators = before.coordinators;
  // It is of the identity that the member has had, or refused here.
  if (absl::Status fits = CheckCredentials(received); !fits.ok()) return wrong(MessageOf(fits));
  if (now < certificate->not_before() || now >= certificate->not_after()) {
    return absl::FailedPreconditionError(
        fmt::format("the new certificate is not valid by this machine's clock, which says {}; the "
                    "coordinator's says {} (set the clock that is wrong)",
                    FormatUtc(now), FormatUtc(TimeOf(response.coordinator_time()))));
  }
  return received;
}

// Keys of `after` that are not among those of `before`.
std::vector<std::string> Added(const std::vector<Certificate>& before,
                               const std::vector<Certificate>& after) {
  std::vector<std::string> added;
  for (const Certificate& one : after) {
    const bool known = std::any_of(before.begin(), before.end(), [&](const Certificate& other) {
      return other.SpkiSha256() == one.SpkiSha256();
    });
    if (!known) added.push_back(HexEncode(one.SpkiSha256()));
  }
  return added;
}

}  // namespace

absl::StatusOr<bool> CertificateRenewer::ShouldRenewNow(const Credentials& current) {
  const absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = dialer_(ChannelUse::kControl);
  if (!channel.ok()) return channel.status();
  v1::CheckCertificateRequest request;
  for (const Certificate& ca : current.ca_bundle) request.add_authorities(ca.SpkiSha256());
  const absl::StatusOr<v1::CheckCertificateResponse> response = client_.Check(*channel, request);
  if (!response.ok()) return response.status();
  return response->renew_now();
}

absl::Status CertificateRenewer::Renew(const Credentials& before) {
  // On the disk before it is used: should the answer be lost, it is asked for again with this key.
  const absl::StatusOr<PrivateKey> key = directory_.PendingKey();
  if (!key.ok()) return key.status();
  const absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = dialer_(ChannelUse::kControl);
  if (!channel.ok()) return channel.status();
  v1::RenewCertificateRequest request;
  request.set_csr(MakeCsr(*key));
  const absl::StatusOr<v1::RenewCertificateResponse> response = client_.Renew(*channel, request);
  if (!response.ok()) return response.status();
  const absl::StatusOr<Credentials> received = Received(*response, before, *key, clock_.WallNow());
  return received.ok() ? directory_.Install(*received) : received.status();
}

absl::Status CertificateRenewer::ComeBack(const Credentials& before) {
  const absl::StatusOr<PrivateKey> key = directory_.PendingKey();
  if (!key.ok()) return key.status();
  const std::string address = NextAddress(before);
  if (address.empty()) {
    return absl::FailedPreconditionError("the credentials name no coordinator");
  }
  const absl::StatusOr<Credentials> received = Rejoin({.address = address,
                                                       .member = before,
                                                       .key = *key,
                                                       .version = std::string(kVersion),
                                                       .limit = kRejoinTime},
                                                      clock_);
  return received.ok() ? directory_.Install(*received) : received.status();
}

std::string CertificateRenewer::NextAddress(const Credentials& credentials) {
  if (!target_.empty() || credentials.coordinators.empty()) return target_;
  return credentials.coordinators[next_coordinator_++ % credentials.coordinators.size()];
}

absl::Status CertificateRenewer::WhyShutOut(const Credentials& current,
                                            const absl::Status& unreachable) {
  const std::string address = NextAddress(current);
  const absl::StatusOr<PrivateKey> key = directory_.PendingKey();
  if (address.empty() || !key.ok()) return unreachable;
  const MembershipAnswer answer = CheckMembership({.address = address,
                                                   .member = current,
                                                   .key = *key,
                                                   .version = std::string(kVersion),
                                                   .limit = kRejoinTime},
                                                  clock_);
  if (!answer.coordinator_time) return unreachable;
  if (absl::IsPermissionDenied(answer.status)) return answer.status;
  const bool ended = *answer.coordinator_time >= current.certificate.not_after();
  return answer.status.ok() && !ended ? unreachable : answer.status;
}

CertificateLook CertificateRenewer::Look(double chance) {
  CertificateLook look;
  absl::StatusOr<Credentials> credentials = directory_.Load();
  if (!credentials.ok()) {
    look.status = credentials.status();
    look.check_interval = std::chrono::minutes(1);
    return look;
  }
  const auto describe = [&] {
    const Certificate& certificate = credentials->certificate;
    look.made_at = IssuedAt(certificate);
    look.renew_at = RenewAt(certificate, chance);
    look.not_after = certificate.not_after();
    look.serial = certificate.serial();
    look.check_interval = CheckInterval(certificate);
    look.state = StateOf(certificate, look.renew_at, clock_.WallNow());
  };
  describe();
  const WallTime reconnect_at = ReconnectAt(credentials->certificate);
  bool due = look.state == CertificateState::kDue;
  if (look.state == CertificateState::kGood || look.state == CertificateState::kNotYetValid) {
    const absl::StatusOr<bool> now = ShouldRenewNow(*credentials);
    // Not being able to ask is no trouble yet: nothing is due.
    due = now.ok() && *now;
    look.status = now.status();
    if (absl::IsUnavailable(look.status)) {
      look.status = WhyShutOut(*credentials, look.status);
      if (look.status.ok()) look.state = CertificateState::kEnded;
    }
  }
  if (due) {
    look.status = Renew(*credentials);
    // The coordinator's clock may say that the certificate has ended.
    if (absl::IsUnavailable(look.status) && clock_.WallNow() >= reconnect_at) {
      look.status = ComeBack(*credentials);
    }
  } else if (look.state == CertificateState::kEnded || look.state == CertificateState::kLost) {
    // When it is too late the coordinator says what to do; its clock counts.
    look.status = ComeBack(*credentials);
  } else {
    look.hopeless = absl::IsPermissionDenied(look.status);
    return look;
  }
  look.hopeless = absl::IsPermissionDenied(look.status);
  if (!look.status.ok()) return look;
  look.renewed = true;
  look.former_reconnect_at = reconnect_at;
  const std::vector<Certificate> trusted = credentials->ca_bundle;
  credentials = directory_.Load();
  look.status = credentials.status();
  if (!credentials.ok()) return look;
  describe();
  look.new_authorities = Added(trusted, credentials->ca_bundle);
  return look;
}

}  // namespace muster
