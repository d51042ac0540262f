#include "coordinator/rpc/network_listener.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "common/base/annotate.h"
#include "common/crypto/client_hello.h"
#include "common/crypto/join_token.h"
#include "common/log/log.h"
#include "common/rpc/thin_stream.h"

namespace muster {
namespace {

constexpr int kBacklog = 1024;
// The longest record of TLS with its header.
constexpr size_t kMaxHelloBytes = kTlsRecordHeaderBytes + (size_t{1} << 14);
constexpr std::chrono::milliseconds kPruneInterval{200};
// What gRPC offers.
constexpr char kGrpcAlpn[] = "h2";

struct HostAndPort {
  // Empty: every address.
  std::string host;
  std::string port;
};

absl::StatusOr<HostAndPort> Split(const std::string& address) {
  const size_t colon = address.rfind(':');
  HostAndPort parts;
  if (colon != std::string::npos) {
    parts.host = address.substr(0, colon);
    parts.port = address.substr(colon + 1);
    if (parts.host.size() >= 2 && parts.host.front() == '[' && parts.host.back() == ']') {
      parts.host = parts.host.substr(1, parts.host.size() - 2);
    } else if (parts.host.find(':') != std::string::npos) {
      parts.port.clear();
    }
  }
  const bool number = !parts.port.empty() && parts.port.size() <= 5 &&
                      parts.port.find_first_not_of("0123456789") == std::string::npos &&
                      std::stoi(parts.port) <= 65535;
  if (number) return parts;
  return absl::InvalidArgumentError(fmt::format(
      "'{}' is no address to listen on: expected HOST:PORT, [IPv6]:PORT or :PORT", address));
}

// The address of a peer, without the port.
std::string HostOf(int connection) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  if (::getpeername(connection, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "";
  char text[NI_MAXHOST];
  if (::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, text, sizeof text, nullptr,
                    0, NI_NUMERICHOST) != 0) {
    return "";
  }
  // An IPv4 address on a socket of both families.
  constexpr std::string_view kMapped = "::ffff:";
  const std::string_view host = text;
  const bool mapped = host.starts_with(kMapped) && host.find('.') != std::string_view::npos;
  return std::string(mapped ? host.substr(kMapped.size()) : host);
}

int PortOf(int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

absl::StatusOr<UniqueFd> Bind(const addrinfo& where, bool both_families) {
  UniqueFd listener(
      ::socket(where.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
  if (!listener) return ErrnoStatus(errno, "make a socket");
  const int on = 1;
  const int off = 0;
  // Connections of a coordinator that ended do not keep its successor out; two at a time cannot be.
  (void)::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (where.ai_family == AF_INET6) {
    (void)::setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, both_families ? &off : &on,
                       sizeof on);
  }
  if (::bind(listener.get(), where.ai_addr, where.ai_addrlen) != 0 ||
      ::listen(listener.get(), kBacklog) != 0) {
    return ErrnoStatus(errno, "bind");
  }
  return listener;
}

}  // namespace

NetworkListener::Limits NetworkListener::Limits::ForFiles(size_t files) {
  const Limits most;
  return {.per_address = std::min(most.per_address, files / 4),
          .in_all = std::min(most.in_all, files / 2),
          .undecided = std::min(most.undecided, files / 8)};
}

absl::StatusOr<std::unique_ptr<NetworkListener>> NetworkListener::Listen(const std::string& address,
                                                                         Limits limits) {
  const absl::StatusOr<HostAndPort> parts = Split(address);
  if (!parts.ok()) return parts.status();
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const bool everywhere = parts->host.empty();
  const int error = ::getaddrinfo(everywhere ? nullptr : parts->host.c_str(), parts->port.c_str(),
                                  &hints, &found);
  if (error != 0) {
    return absl::InvalidArgumentError(
        fmt::format("cannot listen on {}: {}", address, ::gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  absl::Status failed;
  // For every address: IPv6 first, which takes both families where there are both.
  for (const int family : {AF_INET6, AF_INET}) {
    for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
      if (one->ai_family != family) continue;
      absl::StatusOr<UniqueFd> listener = Bind(*one, everywhere);
      if (!listener.ok()) {
        failed = listener.status();
        continue;
      }
      const int port = PortOf(listener->get());
      std::string shown = parts->host.find(':') == std::string::npos
                              ? fmt::format("{}:{}", parts->host, port)
                              : fmt::format("[{}]:{}", parts->host, port);
      return std::unique_ptr<NetworkListener>(
          new NetworkListener(*std::move(listener), std::move(shown), port, limits));
    }
  }
  const bool in_use = failed.message().find(std::strerror(EADDRINUSE)) != std::string_view::npos;
  const std::string text = fmt::format(
      "cannot listen on {}: {}{}", address, MessageOf(failed),
      in_use ? "; is another coordinator running? (`ss -ltnp` shows who has the port)" : "");
  return in_use ? absl::FailedPreconditionError(text) : absl::UnavailableError(text);
}

NetworkListener::NetworkListener(UniqueFd listener, std::string address, int port, Limits limits)
    : listener_(std::move(listener)),
      address_(std::move(address)),
      port_(port),
      limits_(limits),
      acceptor_(address_) {}

NetworkListener::~NetworkListener() {
  while (!undecided_.empty()) (void)Decide(undecided_.begin()->first);
}

void NetworkListener::Serve(EventLoop& loop, Takers takers) {
  loop_ = &loop;
  takers_ = std::move(takers);
  acceptor_.Begin(loop, listener_.get(),
                  [this](UniqueFd connection) { OnConnection(std::move(connection)); });
}

void NetworkListener::OnConnection(UniqueFd connection) {
  std::string host = HostOf(connection.get());
  if (host.empty()) return;  // It is gone already.
  if (!HasRoomFor(host)) {
    if (refusals_told_.Allows(loop_->clock().Now())) {
      spdlog::warn("connections are refused: too many are open address={} from={} open={}",
                   LogQuoted(address_), LogQuoted(host), count_);
    }
    return;
  }
  // Who means it speaks at once.
  if (undecided_.size() >= limits_.undecided) (void)Decide(undecided_.begin()->first);
  const uint64_t number = ++last_number_;
  const int fd = connection.get();
  const Executor::TimerId timer =
      loop_->PostAfter(kPatience, [this, number] { (void)Decide(number); });
  undecided_[number] = {std::move(connection), std::move(host), timer};
  loop_->WatchFd(fd, EPOLLIN | EPOLLPRI | EPOLLRDHUP,
                 [this, number](uint32_t events) { Look(number, events); });
}

void NetworkListener::Look(uint64_t number, uint32_t events) {
  // An urgent byte counts as one that is there and cannot be looked at: the loop would look for it
  // without end. Nobody who speaks TLS sends one.
  if ((events & EPOLLPRI) != 0) {
    (void)Decide(number);
    return;
  }
  const Undecided& undecided = undecided_.at(number);
  const int fd = undecided.connection.get();
  char bytes[kMaxHelloBytes];
  const ssize_t count = ::recv(fd, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  std::optional<ClientHello> hello;
  if (count > 0) hello = ParseClientHello({bytes, static_cast<size_t>(count)});
  const bool no_more = (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
  if (!hello.has_value() || (hello->wanted_bytes > 0 && no_more)) {
    (void)Decide(number);
    return;
  }
  if (hello->wanted_bytes > 0) {
    // Not before so many are there.
    const int wanted = static_cast<int>(hello->wanted_bytes);
    if (::setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &wanted, sizeof wanted) != 0) {
      (void)Decide(number);
    }
    return;
  }
  const std::string host = undecided.host;
  UniqueFd connection = Decide(number);
  const int one = 1;
  (void)::setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof one);
  if (hello->Offers(kJoinAlpn)) {
    if (takers_.join) takers_.join(std::move(connection), host);
  } else if (hello->Offers(kGrpcAlpn)) {
    GiveToGrpc(std::move(connection), host);
  }
}

UniqueFd NetworkListener::Decide(uint64_t number) {
  const auto found = undecided_.find(number);
  loop_->UnwatchFd(found->second.connection.get());
  loop_->Cancel(found->second.timer);
  UniqueFd connection = std::move(found->second.connection);
  undecided_.erase(found);
  return connection;
}

void NetworkListener::GiveToGrpc(UniqueFd connection, const std::string& host) {
  const int on = 1;
  (void)::setsockopt(connection.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  RetryThinStreamsSteadily(connection.get());
  struct stat info = {};
  if (::fstat(connection.get(), &info) != 0) return;
  connections_[host].push_back({connection.get(), info.st_ino});
  ++count_;
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
  parameters.listener_fd = listener_.get();
  parameters.fd = connection.Release();
  takers_.grpc->HandleNewConnection(&parameters);
}

bool NetworkListener::HasRoomFor(const std::string& host) {
  const auto is_room = [&] {
    const auto open = connections_.find(host);
    return count_ < limits_.in_all &&
           (open == connections_.end() || open->second.size() < limits_.per_address);
  };
  if (is_room()) return true;
  // Looking for those that were closed takes a call for each.
  const TimePoint now = loop_->clock().Now();
  if (now < pruned_at_ + kPruneInterval) return false;
  pruned_at_ = now;
  (void)open_connections();
  return is_room();
}

size_t NetworkListener::open_connections() {
  count_ = 0;
  for (auto it = connections_.begin(); it != connections_.end();) {
    Prune(it->second);
    count_ += it->second.size();
    it = it->second.empty() ? connections_.erase(it) : std::next(it);
  }
  return count_;
}

void NetworkListener::Prune(std::vector<Connection>& connections) {
  std::erase_if(connections, [](const Connection& connection) {
    // gRPC has closed it when its number means nothing any more, or something else.
    struct stat info = {};
    return ::fstat(connection.fd, &info) != 0 || !S_ISSOCK(info.st_mode) ||
           info.st_ino != connection.inode;
  });
}

}  // namespace muster
