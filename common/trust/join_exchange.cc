#include "common/trust/join_exchange.h"

#include <fmt/format.h>

#include <utility>

#include "common/base/annotate.h"
#include "common/base/utc.h"
#include "common/crypto/join_frame.h"

namespace muster {
namespace {

constexpr size_t kMaxShownBytes = 1024;

}  // namespace

std::string Shown(std::string_view text) {
  std::string shown(text.substr(0, kMaxShownBytes));
  for (char& c : shown) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return shown;
}

absl::Status JoinHandshakeStatus(const absl::Status& status, const std::string& address) {
  if (absl::IsUnavailable(status)) {
    return absl::UnavailableError(
        fmt::format("{} ended the connection before TLS was agreed on: {} (is it the join port? A "
                    "coordinator takes 60 joins a minute from one address)",
                    address, MessageOf(status)));
  }
  if (absl::IsInvalidArgument(status)) {
    return absl::UnavailableError(
        fmt::format("{} is no join port of a coordinator: {}", address, MessageOf(status)));
  }
  return status;
}

absl::StatusOr<v1::JoinReply> ExchangeJoin(TlsDial& dial, const v1::JoinRequest& request,
                                           std::string_view again) {
  const auto lost = [&](const absl::Status& status) {
    if (absl::IsDeadlineExceeded(status)) return status;
    return absl::UnavailableError(
        fmt::format("the connection to {} was lost before the answer came: {} ({})", dial.address(),
                    MessageOf(status), again));
  };
  const absl::StatusOr<TlsProgress> sent =
      dial.Write(FrameJoinMessage(request.SerializeAsString()));
  if (!sent.ok()) return lost(sent.status());
  std::string received;
  while (true) {
    const auto message = UnframeJoinMessage(received, kMaxJoinReplyBytes);
    v1::JoinReply reply;
    if (message.ok() && *message) {
      if (reply.ParseFromArray((*message)->data(), static_cast<int>((*message)->size()))) {
        return reply;
      }
    }
    if (!message.ok() || *message) {
      return absl::UnavailableError(fmt::format("the answer of {} cannot be read", dial.address()));
    }
    const absl::StatusOr<TlsProgress> progress =
        dial.Read(kJoinHeaderBytes + kMaxJoinReplyBytes + 1 - received.size(), received);
    if (!progress.ok()) return lost(progress.status());
    if (*progress == TlsProgress::kEnd) return lost(absl::UnavailableError("it ended"));
  }
}

absl::Status RefusalStatus(const v1::JoinReply& reply, const std::string& address) {
  if (!reply.has_refused()) {
    return absl::UnavailableError(fmt::format("the answer of {} says neither yes nor no", address));
  }
  const v1::JoinRefused& refused = reply.refused();
  const std::string text = fmt::format("{} refused: {}", address, Shown(refused.message()));
  if (refused.cause() == v1::JoinRefused::UNAVAILABLE) return absl::UnavailableError(text);
  return absl::PermissionDeniedError(text);
}

absl::Status CheckClocks(const Certificate& certificate, WallTime now, WallTime theirs) {
  if (now >= certificate.not_before() && now < certificate.not_after()) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "the clocks differ too much: this machine's says {}, the coordinator's says {} (set the "
      "clock and try again)",
      FormatUtc(now), FormatUtc(theirs)));
}

absl::StatusOr<Credentials> AcceptedCredentials(const v1::JoinReply& reply, const Identity& server,
                                                const PrivateKey& key, const std::string& address,
                                                WallTime now) {
  const v1::JoinAccepted& accepted = reply.accepted();
  const auto wrong = [&](std::string_view what) {
    return absl::InternalError(
        fmt::format("{} accepted, but {} (nothing was kept)", address, what));
  };
  const auto certificate = Certificate::FromPem(accepted.certificate_pem());
  if (!certificate.ok()) return wrong(MessageOf(certificate.status()));
  auto bundle = Certificate::ParseBundle(accepted.ca_bundle_pem());
  if (!bundle.ok()) return wrong(MessageOf(bundle.status()));
  absl::StatusOr<Identity> identity = IdentityOf(*certificate);
  if (!identity.ok()) return wrong(MessageOf(identity.status()));
  if (identity->cluster_id != server.cluster_id || accepted.cluster_id() != server.cluster_id) {
    return wrong("with a certificate of another cluster");
  }
  Credentials credentials{key, *certificate, *std::move(bundle), *std::move(identity), {}};
  for (const std::string& coordinator : accepted.coordinators()) {
    if (Shown(coordinator) != coordinator) return wrong("an address in it is no text");
    credentials.coordinators.push_back(coordinator);
  }
  if (absl::Status fits = CheckCredentials(credentials); !fits.ok()) return wrong(MessageOf(fits));
  const absl::Status clocks = CheckClocks(
      *certificate, now, WallTime(std::chrono::milliseconds(reply.coordinator_time_ms())));
  if (!clocks.ok()) return clocks;
  return credentials;
}

}  // namespace muster
