#include "common/trust/join_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "common/base/annotate.h"
#include "common/crypto/csr.h"
#include "common/crypto/join_token.h"
#include "common/crypto/tls_session.h"
#include "common/trust/join_exchange.h"
#include "common/trust/server_chain.h"
#include "common/trust/tls_dial.h"

namespace muster {
namespace {

constexpr char kAgain[] = "try again; the same use of the token counts for 10 minutes";

// That what was handed out is what was asked for.
absl::Status CheckWish(const Credentials& credentials, std::string_view pin,
                       const JoinOptions& options) {
  const auto wrong = [&](std::string_view what) {
    return absl::InternalError(
        fmt::format("{} accepted, but {} (nothing was kept)", options.address, what));
  };
  const std::vector<Certificate>& bundle = credentials.ca_bundle;
  if (std::none_of(bundle.begin(), bundle.end(),
                   [&](const Certificate& ca) { return ca.SpkiSha256() == pin; })) {
    return wrong("the CA that the token names is not among those to trust");
  }
  const Identity& identity = credentials.identity;
  if (identity.kind != options.kind) {
    return wrong(fmt::format("as {}", IdentityKindName(identity.kind)));
  }
  if (!options.name.empty() && identity.name != options.name) {
    return wrong(fmt::format("as '{}'", identity.name));
  }
  return absl::OkStatus();
}

// A connection on which the server has proven to be what `verify` wants.
struct JoinPort {
  TlsDial dial;
  Identity server;
};

template <typename Verify>
absl::StatusOr<JoinPort> OpenJoinPort(const std::string& address, std::chrono::milliseconds limit,
                                      Verify verify) {
  absl::StatusOr<TlsDial> dial = TlsDial::Connect(address, "join at", limit);
  if (!dial.ok()) return dial.status();
  const absl::StatusOr<TlsContext> context = TlsContext::ForClient(kJoinAlpn);
  if (!context.ok()) return context.status();
  std::optional<Identity> server;
  const absl::Status shaken =
      dial->Handshake(*context, [&](const std::vector<Certificate>& chain) -> absl::Status {
        const absl::StatusOr<Identity> identity = verify(chain);
        if (identity.ok()) server = *identity;
        return identity.status();
      });
  if (!shaken.ok()) return JoinHandshakeStatus(shaken, address);
  if (dial->session().Protocol() != kJoinAlpn || !server) {
    return absl::UnavailableError(fmt::format("{} is no join port of a coordinator", address));
  }
  return JoinPort{*std::move(dial), *server};
}

absl::StatusOr<v1::JoinReply> AskAsMember(JoinPort& port, const Credentials& member,
                                          const PrivateKey& key, std::string_view version,
                                          bool check_only) {
  const std::string csr = MakeCsr(key);
  v1::JoinRequest request;
  request.set_protocol(kJoinProtocol);
  request.set_csr(csr);
  request.set_version(std::string(version));
  request.set_member_certificate(member.certificate.ToDer());
  request.set_member_signature(
      member.key.Sign(RejoinStatement(port.dial.session().Exporter(kJoinExporterLabel), csr)));
  request.set_check_only(check_only);
  absl::StatusOr<v1::JoinReply> reply = ExchangeJoin(port.dial, request, "try again");
  if (reply.ok()) port.dial.session().SendEnd();
  return reply;
}

absl::StatusOr<JoinPort> OpenAsMember(const Credentials& member, const std::string& address,
                                      std::chrono::milliseconds limit, const Clock& clock) {
  return OpenJoinPort(
      address, limit, [&](const std::vector<Certificate>& chain) -> absl::StatusOr<Identity> {
        absl::StatusOr<Identity> identity =
            VerifyCoordinatorChain(chain, member.ca_bundle, clock.WallNow());
        if (absl::IsFailedPrecondition(identity.status())) {
          return Annotate(identity.status(), address);
        }
        if (!identity.ok() || identity->cluster_id != member.identity.cluster_id) {
          return absl::PermissionDeniedError(fmt::format(
              "the certificate at {} is not of an authority that this member trusts: it is "
              "another cluster, or the authority was changed while this machine was away (then "
              "join again with a new token)",
              address));
        }
        return identity;
      });
}

}  // namespace

absl::StatusOr<Credentials> Join(const JoinOptions& options, const Clock& clock) {
  const absl::StatusOr<JoinToken> token = ParseToken(options.token);
  if (!token.ok()) return token.status();
  absl::StatusOr<JoinPort> port =
      OpenJoinPort(options.address, options.limit, [&](const std::vector<Certificate>& chain) {
        return VerifyPinnedServer(chain, token->pin, clock.WallNow(), options.address);
      });
  if (!port.ok()) return port.status();
  const std::string csr = MakeCsr(options.key);
  v1::JoinRequest request;
  request.set_protocol(kJoinProtocol);
  request.set_token_id(token->id);
  request.set_proof(
      JoinProof(TokenKey(*token), port->dial.session().Exporter(kJoinExporterLabel), csr));
  request.set_csr(csr);
  request.set_name(options.name);
  request.set_role(options.kind == IdentityKind::kAgent ? v1::JoinRequest::AGENT
                                                        : v1::JoinRequest::USER);
  request.set_machine_id(options.machine_id);
  request.set_boot_id(options.boot_id);
  request.set_version(options.version);
  const absl::StatusOr<v1::JoinReply> reply = ExchangeJoin(port->dial, request, kAgain);
  if (!reply.ok()) return reply.status();
  port->dial.session().SendEnd();
  if (!reply->has_accepted()) return RefusalStatus(*reply, options.address);
  absl::StatusOr<Credentials> credentials =
      AcceptedCredentials(*reply, port->server, options.key, options.address, clock.WallNow());
  if (!credentials.ok()) return credentials;
  const absl::Status wished = CheckWish(*credentials, token->pin, options);
  if (!wished.ok()) return wished;
  return credentials;
}

absl::StatusOr<Credentials> Rejoin(const RejoinOptions& options, const Clock& clock) {
  absl::StatusOr<JoinPort> port =
      OpenAsMember(options.member, options.address, options.limit, clock);
  if (!port.ok()) return port.status();
  const absl::StatusOr<v1::JoinReply> reply =
      AskAsMember(*port, options.member, options.key, options.version, /*check_only=*/false);
  if (!reply.ok()) return reply.status();
  if (!reply->has_accepted()) return RefusalStatus(*reply, options.address);
  absl::StatusOr<Credentials> credentials =
      AcceptedCredentials(*reply, port->server, options.key, options.address, clock.WallNow());
  if (credentials.ok() && credentials->identity != options.member.identity) {
    return absl::InternalError(fmt::format("{} accepted, but as {} (nothing was kept)",
                                           options.address, ToUri(credentials->identity)));
  }
  return credentials;
}

MembershipAnswer CheckMembership(const RejoinOptions& options, const Clock& clock) {
  absl::StatusOr<JoinPort> port =
      OpenAsMember(options.member, options.address, options.limit, clock);
  if (!port.ok()) return {port.status(), std::nullopt};
  const absl::StatusOr<v1::JoinReply> reply =
      AskAsMember(*port, options.member, options.key, options.version, /*check_only=*/true);
  if (!reply.ok()) return {reply.status(), std::nullopt};
  return {reply->has_checked() ? absl::OkStatus() : RefusalStatus(*reply, options.address),
          WallTime(std::chrono::milliseconds(reply->coordinator_time_ms()))};
}

}  // namespace muster
