#include "common/doctor/coordinator_probe.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

#include "common/base/annotate.h"
#include "common/base/utc.h"
#include "common/trust/join_client.h"
#include "common/trust/server_chain.h"
#include "common/trust/tls_dial.h"

namespace muster {
namespace {

constexpr std::chrono::milliseconds kLimit{5000};
// What gRPC speaks.
constexpr char kGrpcAlpn[] = "h2";
// Beyond that certificates begin to be refused.
constexpr std::chrono::minutes kMuchTime{10};

Finding Resolve(const HostPort& parts) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* raw = nullptr;
  const int error = ::getaddrinfo(parts.host.c_str(), nullptr, &hints, &raw);
  if (error != 0) {
    return Bad("name", fmt::format("'{}' is not found: {}", parts.host, ::gai_strerror(error)),
               "ask the name server or /etc/hosts, or use the address: agent run --coordinator");
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(raw, &::freeaddrinfo);
  std::vector<std::string> found;
  for (const addrinfo* at = raw; at != nullptr; at = at->ai_next) {
    char text[NI_MAXHOST] = "";
    if (::getnameinfo(at->ai_addr, at->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST) ==
        0) {
      found.emplace_back(text);
    }
  }
  return Good("name", fmt::format("{} is {}", parts.host, fmt::join(found, ", ")));
}

Finding Handshake(const Credentials& member, TlsDial& dial, const TlsContext& context,
                  const Clock& clock) {
  std::optional<Identity> server;
  const absl::Status shaken =
      dial.Handshake(context, [&](const std::vector<Certificate>& chain) -> absl::Status {
        const absl::StatusOr<Identity> identity =
            VerifyCoordinatorChain(chain, member.ca_bundle, clock.WallNow());
        if (identity.ok()) server = *identity;
        return identity.status();
      });
  const std::string& cluster = member.identity.cluster_id;
  if (absl::IsPermissionDenied(shaken)) {
    return Failed("tls", Annotate(shaken, dial.address()),
                  "wrong address, another cluster, somebody in between, or its authority was "
                  "changed while this node was away (then join again)");
  }
  if (!shaken.ok()) return Failed("tls", Annotate(shaken, dial.address()));
  if (server && server->cluster_id != cluster) {
    return Bad("tls", fmt::format("the coordinator at {} is of cluster {}, this node of {}",
                                  dial.address(), server->cluster_id, cluster));
  }
  return Good("tls", fmt::format("it is the coordinator of cluster {}", cluster));
}

// That the gRPC server begins to speak, which it does to members only.
Finding ReachGrpc(TlsDial& dial, bool ended) {
  std::string received;
  const absl::StatusOr<TlsProgress> progress = dial.Read(1, received);
  if (progress.ok() && !received.empty()) return Good("grpc", "it takes this certificate");
  if (ended) {
    return Doubtful("grpc", "it refuses this certificate, because it has ended",
                    "agent run gets a new one, if membership is in order");
  }
  return Bad("grpc",
             fmt::format("it refuses this certificate: {}",
                         progress.ok() ? "it closed the connection"
                                       : std::string(MessageOf(progress.status()))),
             "the log of the coordinator says why (peer refused)");
}

Findings AskAboutMembership(const Credentials& member, const std::string& address,
                            const std::string& version, const Clock& clock) {
  const MembershipAnswer answer = CheckMembership({.address = address,
                                                   .member = member,
                                                   .key = PrivateKey::Generate(),
                                                   .version = version,
                                                   .limit = kLimit},
                                                  clock);
  Findings findings;
  if (answer.coordinator_time) {
    const WallTime now = clock.WallNow();
    const auto difference = std::chrono::duration_cast<std::chrono::seconds>(
        now > *answer.coordinator_time ? now - *answer.coordinator_time
                                       : *answer.coordinator_time - now);
    const std::string text = fmt::format("here {}, at the coordinator {}", FormatUtc(now),
                                         FormatUtc(*answer.coordinator_time));
    findings.push_back(difference > kMuchTime
                           ? Doubtful("clock", text, "set the clock that is wrong")
                           : Good("clock", text));
  }
  findings.push_back(answer.status.ok()
                         ? Good("membership", fmt::format("{} is a member, with this certificate",
                                                          member.identity.name))
                         : Failed("membership", answer.status));
  return findings;
}

}  // namespace

Findings ProbeCoordinator(const Credentials& member, const std::string& address,
                          const std::string& version, const Clock& clock) {
  Findings findings;
  const auto add = [&](Finding finding) {
    findings.push_back(std::move(finding));
    return findings.back().verdict != Verdict::kFail;
  };
  const absl::StatusOr<HostPort> parts = SplitAddress(address);
  if (!parts.ok()) return {Failed("name", parts.status())};
  if (!add(Resolve(*parts))) return findings;
  absl::StatusOr<TlsDial> dial = TlsDial::Connect(address, "TLS with", kLimit);
  if (!dial.ok()) {
    add(Failed("connect", dial.status(),
               "does the coordinator run (serve --listen), and does a firewall let the port "
               "through?"));
    return findings;
  }
  add(Good("connect", fmt::format("{} answers", address)));
  const absl::StatusOr<TlsContext> context =
      TlsContext::ForMember(member.certificate, member.key, kGrpcAlpn);
  if (!context.ok()) {
    add(Failed("tls", context.status()));
    return findings;
  }
  if (!add(Handshake(member, *dial, *context, clock))) return findings;
  // First what the coordinator says about it, which explains what gRPC only closes.
  for (Finding& finding : AskAboutMembership(member, address, version, clock)) {
    add(std::move(finding));
  }
  add(ReachGrpc(*dial, member.certificate.not_after() <= clock.WallNow()));
  return findings;
}

}  // namespace muster
