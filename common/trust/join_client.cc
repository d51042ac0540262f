#include "common/trust/join_client.h"

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include "common/base/annotate.h"
#include "common/base/utc.h"
#include "common/crypto/csr.h"
#include "common/crypto/join_frame.h"
#include "common/crypto/join_token.h"
#include "common/crypto/tls_session.h"
#include "common/crypto/verify.h"
#include "common/io/unique_fd.h"
#include "muster/v1/join.pb.h"

namespace muster {
namespace {

constexpr size_t kMaxShownBytes = 1024;

TimePoint Now() { return std::chrono::steady_clock::now(); }

struct HostPort {
  std::string host;
  std::string port;
};

absl::StatusOr<HostPort> SplitAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  HostPort parts;
  if (colon != std::string::npos) {
    parts = {address.substr(0, colon), address.substr(colon + 1)};
    if (parts.host.size() > 2 && parts.host.front() == '[' && parts.host.back() == ']') {
      parts.host = parts.host.substr(1, parts.host.size() - 2);
    } else if (parts.host.find(':') != std::string::npos) {
      parts.host.clear();
    }
  }
  const bool number = !parts.port.empty() && parts.port.size() <= 5 &&
                      std::all_of(parts.port.begin(), parts.port.end(),
                                  [](char c) { return c >= '0' && c <= '9'; });
  if (parts.host.empty() || !number || std::stoi(parts.port) > 65535) {
    return absl::InvalidArgumentError(fmt::format(
        "'{}' is no address: expected host:port, like head.example:7443 or [2001:db8::1]:7443",
        address));
  }
  return parts;
}

// What others sent, fit for a terminal.
std::string Shown(std::string_view text) {
  std::string shown(text.substr(0, kMaxShownBytes));
  for (char& c : shown) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return shown;
}

absl::Status Late(std::string_view doing, const JoinOptions& options) {
  return absl::DeadlineExceededError(
      fmt::format("{} {}: no answer within {} s", doing, options.address,
                  std::chrono::duration<double>(options.limit).count()));
}

// Waits until `fd` is ready; false when `deadline` has come first.
bool AwaitReady(int fd, short events, TimePoint deadline) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Now()).count();
    if (left <= 0) return false;
    pollfd waiting = {fd, events, 0};
    const int count = ::poll(&waiting, 1, static_cast<int>(std::min<int64_t>(left, 60'000)));
    if (count > 0) return true;
    if (count < 0 && errno != EINTR) return true;  // What comes next tells the error.
  }
}

absl::StatusOr<UniqueFd> ConnectTo(const addrinfo& address, const JoinOptions& options,
                                   TimePoint deadline) {
  const std::string doing = fmt::format("cannot connect to {}", options.address);
  UniqueFd fd(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return ErrnoStatus(errno, doing);
  if (::connect(fd.get(), address.ai_addr, address.ai_addrlen) == 0) return fd;
  if (errno != EINPROGRESS) return ErrnoStatus(errno, doing);
  if (!AwaitReady(fd.get(), POLLOUT, deadline)) return Late("cannot connect to", options);
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error != 0) return ErrnoStatus(error, doing);
  return fd;
}

absl::StatusOr<UniqueFd> Connect(const JoinOptions& options, TimePoint deadline) {
  const absl::StatusOr<HostPort> parts = SplitAddress(options.address);
  if (!parts.ok()) return parts.status();
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* raw = nullptr;
  const int error = ::getaddrinfo(parts->host.c_str(), parts->port.c_str(), &hints, &raw);
  if (error != 0) {
    return absl::UnavailableError(
        fmt::format("cannot connect to {}: the name '{}' is not found: "
                    "{}",
                    options.address, parts->host, ::gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(raw, &::freeaddrinfo);
  absl::StatusOr<UniqueFd> fd = absl::UnavailableError(options.address);
  for (const addrinfo* at = raw; at != nullptr; at = at->ai_next) {
    fd = ConnectTo(*at, options, deadline);
    if (fd.ok()) return fd;
  }
  return fd;
}

// Repeats `step` until it is done or the other end has ended.
template <typename Step>
absl::StatusOr<TlsProgress> Drive(Step step, int fd, std::string_view doing,
                                  const JoinOptions& options, TimePoint deadline) {
  while (true) {
    const absl::StatusOr<TlsProgress> progress = step();
    if (!progress.ok() || *progress == TlsProgress::kDone || *progress == TlsProgress::kEnd) {
      return progress;
    }
    const short events = *progress == TlsProgress::kWantsWrite ? POLLOUT : POLLIN;
    if (!AwaitReady(fd, events, deadline)) return Late(doing, options);
  }
}

absl::Status HandshakeStatus(const absl::Status& status, const JoinOptions& options) {
  if (absl::IsUnavailable(status)) {
    return absl::UnavailableError(
        fmt::format("{} ended the connection before TLS was agreed on: {} (is it the join port? A "
                    "coordinator takes 60 joins a minute from one address)",
                    options.address, MessageOf(status)));
  }
  if (absl::IsInvalidArgument(status)) {
    return absl::UnavailableError(
        fmt::format("{} is no join port of a coordinator: {}", options.address, MessageOf(status)));
  }
  return status;
}

absl::StatusOr<v1::JoinReply> Exchange(TlsSession& session, int fd, const std::string& request,
                                       const JoinOptions& options, TimePoint deadline) {
  const std::string frame = FrameJoinMessage(request);
  std::string_view unsent = frame;
  const auto lost = [&](const absl::Status& status) {
    return absl::UnavailableError(
        fmt::format("the connection to {} was lost before the answer came: {} (try again; the same "
                    "use of the token counts for 10 minutes)",
                    options.address, MessageOf(status)));
  };
  const absl::StatusOr<TlsProgress> sent =
      Drive([&] { return session.Write(unsent); }, fd, "join at", options, deadline);
  if (!sent.ok()) {
    return absl::IsDeadlineExceeded(sent.status()) ? sent.status() : lost(sent.status());
  }
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
      return absl::UnavailableError(
          fmt::format("the answer of {} cannot be read", options.address));
    }
    const size_t room = kJoinHeaderBytes + kMaxJoinReplyBytes + 1 - received.size();
    const absl::StatusOr<TlsProgress> progress =
        Drive([&] { return session.Read(room, received); }, fd, "join at", options, deadline);
    if (!progress.ok()) {
      return absl::IsDeadlineExceeded(progress.status()) ? progress.status()
                                                         : lost(progress.status());
    }
    if (*progress == TlsProgress::kEnd) return lost(absl::UnavailableError("it ended"));
  }
}

absl::Status RefusalStatus(const v1::JoinReply& reply, const JoinOptions& options) {
  const v1::JoinRefused& refused = reply.refused();
  const std::string text = fmt::format("{} refused: {}", options.address, Shown(refused.message()));
  if (refused.cause() == v1::JoinRefused::UNAVAILABLE) return absl::UnavailableError(text);
  return absl::PermissionDeniedError(text);
}

// What was handed out, once it is known to be what was asked for.
absl::StatusOr<Credentials> CheckReply(const v1::JoinReply& reply, const Identity& server,
                                       std::string_view pin, const JoinOptions& options,
                                       WallTime now) {
  const v1::JoinAccepted& accepted = reply.accepted();
  const auto wrong = [&](std::string_view what) {
    return absl::InternalError(
        fmt::format("{} accepted, but {} (nothing was kept)", options.address, what));
  };
  const auto certificate = Certificate::FromPem(accepted.certificate_pem());
  if (!certificate.ok()) return wrong(MessageOf(certificate.status()));
  auto bundle = Certificate::ParseBundle(accepted.ca_bundle_pem());
  if (!bundle.ok()) return wrong(MessageOf(bundle.status()));
  if (std::none_of(bundle->begin(), bundle->end(),
                   [&](const Certificate& ca) { return ca.SpkiSha256() == pin; })) {
    return wrong("the CA that the token names is not among those to trust");
  }
  absl::StatusOr<Identity> identity = IdentityOf(*certificate);
  if (!identity.ok()) return wrong(MessageOf(identity.status()));
  if (identity->cluster_id != server.cluster_id || accepted.cluster_id() != server.cluster_id) {
    return wrong("with a certificate of another cluster");
  }
  if (identity->kind != options.kind) {
    return wrong(fmt::format("as {}", IdentityKindName(identity->kind)));
  }
  if (!options.name.empty() && identity->name != options.name) {
    return wrong(fmt::format("as '{}'", identity->name));
  }
  Credentials credentials{options.key, *certificate, *std::move(bundle), *std::move(identity), {}};
  for (const std::string& coordinator : accepted.coordinators()) {
    if (Shown(coordinator) != coordinator) return wrong("an address in it is no text");
    credentials.coordinators.push_back(coordinator);
  }
  if (absl::Status fits = CheckCredentials(credentials); !fits.ok()) return wrong(MessageOf(fits));
  if (now < certificate->not_before() || now >= certificate->not_after()) {
    const WallTime theirs{std::chrono::milliseconds(reply.coordinator_time_ms())};
    return absl::FailedPreconditionError(fmt::format(
        "the clocks differ too much: this machine's says {}, the coordinator's says {} (set the "
        "clock and join again)",
        FormatUtc(now), FormatUtc(theirs)));
  }
  return credentials;
}

}  // namespace

absl::StatusOr<Identity> VerifyPinnedServer(const std::vector<Certificate>& chain,
                                            std::string_view pin, WallTime now,
                                            std::string_view where) {
  const auto foreign = [&](std::string_view why) {
    return absl::PermissionDeniedError(fmt::format(
        "the certificate at {} is not of the cluster that the token names{} (wrong address, a "
        "token of another cluster, or somebody in between; nothing of the token was sent)",
        where, why));
  };
  const auto root = std::find_if(chain.begin(), chain.end(), [&](const Certificate& certificate) {
    return certificate.is_ca() && certificate.SpkiSha256() == pin;
  });
  if (root == chain.end()) return foreign("");
  const absl::Status valid =
      VerifyCertificate(chain.front(), {*root}, CertificateUse::kServer, now);
  if (absl::IsFailedPrecondition(valid)) return Annotate(valid, where);
  if (!valid.ok()) return foreign(fmt::format(": {}", MessageOf(valid)));
  absl::StatusOr<Identity> identity = IdentityOf(chain.front());
  if (!identity.ok()) return foreign(fmt::format(": {}", MessageOf(identity.status())));
  if (identity->kind != IdentityKind::kCoordinator) {
    return foreign(fmt::format(": it is of its {}", IdentityKindName(identity->kind)));
  }
  return identity;
}

absl::StatusOr<Credentials> Join(const JoinOptions& options, const Clock& clock) {
  const absl::StatusOr<JoinToken> token = ParseToken(options.token);
  if (!token.ok()) return token.status();
  const TimePoint deadline = Now() + options.limit;
  const absl::StatusOr<UniqueFd> fd = Connect(options, deadline);
  if (!fd.ok()) return fd.status();
  const absl::StatusOr<TlsContext> context = TlsContext::ForClient(kJoinAlpn);
  if (!context.ok()) return context.status();
  std::optional<Identity> server;
  absl::StatusOr<TlsSession> session = TlsSession::Client(
      *context, fd->get(), [&](const std::vector<Certificate>& chain) -> absl::Status {
        const absl::StatusOr<Identity> identity =
            VerifyPinnedServer(chain, token->pin, clock.WallNow(), options.address);
        if (identity.ok()) server = *identity;
        return identity.status();
      });
  if (!session.ok()) return session.status();
  const absl::StatusOr<TlsProgress> shaken =
      Drive([&] { return session->Handshake(); }, fd->get(), "join at", options, deadline);
  if (!shaken.ok()) return HandshakeStatus(shaken.status(), options);
  if (session->Protocol() != kJoinAlpn || !server) {
    return absl::UnavailableError(
        fmt::format("{} is no join port of a coordinator", options.address));
  }
  const std::string csr = MakeCsr(options.key);
  v1::JoinRequest request;
  request.set_protocol(kJoinProtocol);
  request.set_token_id(token->id);
  request.set_proof(JoinProof(TokenKey(*token), session->Exporter(kJoinExporterLabel), csr));
  request.set_csr(csr);
  request.set_name(options.name);
  request.set_role(options.kind == IdentityKind::kAgent ? v1::JoinRequest::AGENT
                                                        : v1::JoinRequest::USER);
  request.set_machine_id(options.machine_id);
  request.set_boot_id(options.boot_id);
  request.set_version(options.version);
  const absl::StatusOr<v1::JoinReply> reply =
      Exchange(*session, fd->get(), request.SerializeAsString(), options, deadline);
  if (!reply.ok()) return reply.status();
  session->SendEnd();
  if (reply->has_refused()) return RefusalStatus(*reply, options);
  if (!reply->has_accepted()) {
    return absl::UnavailableError(
        fmt::format("the answer of {} says neither yes nor no", options.address));
  }
  return CheckReply(*reply, *server, token->pin, options, clock.WallNow());
}

}  // namespace muster
