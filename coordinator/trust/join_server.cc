#include "coordinator/trust/join_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/annotate.h"
#include "common/crypto/join_token.h"
#include "common/log/log.h"

namespace muster {
namespace {

constexpr int kBacklog = 512;
constexpr int kMaxAcceptsAtOnce = 64;
constexpr std::chrono::milliseconds kPause{100};
// Places of wake and listener in the list for poll.
constexpr size_t kOthers = 2;

TimePoint Now() { return std::chrono::steady_clock::now(); }

UniqueFd OpenReserve() { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

absl::StatusOr<TlsContext> ContextOf(const Trust& trust) {
  return TlsContext::ForServer(trust.ServerChain(), trust.coordinator_key, kJoinAlpn);
}

std::string AddressText(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, text,
                sizeof text);
  } else if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&v6)) {
      ::inet_ntop(AF_INET, &v6.s6_addr[12], text, sizeof text);
    } else {
      ::inet_ntop(AF_INET6, &v6, text, sizeof text);
    }
  }
  return text;
}

absl::StatusOr<UniqueFd> ListenOn(const addrinfo& address, const std::string& where) {
  UniqueFd fd(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return ErrnoStatus(errno, where);
  const int on = 1;
  const int off = 0;
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  // On all addresses means those of IPv4 too.
  if (address.ai_family == AF_INET6) {
    (void)::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
  if (::bind(fd.get(), address.ai_addr, address.ai_addrlen) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    return ErrnoStatus(errno, fmt::format("listen on {}", where));
  }
  return fd;
}

}  // namespace

absl::StatusOr<UniqueFd> ListenTcp(const std::string& host, uint16_t port) {
  const std::string where = fmt::format("{}:{}", host.empty() ? "*" : host, port);
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* raw = nullptr;
  const int error = ::getaddrinfo(host.empty() ? nullptr : host.c_str(),
                                  std::to_string(port).c_str(), &hints, &raw);
  if (error != 0) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", where, ::gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(raw, &::freeaddrinfo);
  absl::StatusOr<UniqueFd> listener = absl::UnavailableError(where);
  // Without a host IPv6 first: it serves both.
  for (const int family : {AF_INET6, AF_INET}) {
    for (const addrinfo* at = raw; at != nullptr; at = at->ai_next) {
      if (at->ai_family != family) continue;
      listener = ListenOn(*at, where);
      if (listener.ok()) return listener;
    }
  }
  return listener;
}

absl::StatusOr<std::unique_ptr<JoinServer>> JoinServer::Start(UniqueFd listener,
                                                              const LiveTrust& trust,
                                                              JoinHandler& handler,
                                                              const JoinLimits& limits) {
  const uint64_t version = trust.version();
  absl::StatusOr<TlsContext> context = ContextOf(*trust.Get());
  if (!context.ok()) return context.status();
  UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return ErrnoStatus(errno, "eventfd");
  uint16_t port = 0;
  if (listener) {
    const int flags = ::fcntl(listener.get(), F_GETFL);
    if (flags < 0 || ::fcntl(listener.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
      return ErrnoStatus(errno, "the join listener");
    }
    sockaddr_storage address = {};
    socklen_t size = sizeof address;
    if (::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      return ErrnoStatus(errno, "the join listener");
    }
    port = ntohs(address.ss_family == AF_INET6
                     ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                     : reinterpret_cast<const sockaddr_in&>(address).sin_port);
  }
  auto server = std::unique_ptr<JoinServer>(new JoinServer(
      std::move(listener), std::move(wake), trust, version, *std::move(context), handler, limits));
  server->port_ = port;
  server->thread_ = std::thread([raw = server.get()] { raw->Run(); });
  return server;
}

JoinServer::JoinServer(UniqueFd listener, UniqueFd wake, const LiveTrust& trust, uint64_t version,
                       TlsContext context, JoinHandler& handler, const JoinLimits& limits)
    : listener_(std::move(listener)),
      wake_(std::move(wake)),
      trust_(trust),
      handler_(handler),
      limits_(limits),
      version_(version),
      context_(std::move(context)),
      rate_(limits.per_minute),
      reserve_(OpenReserve()) {}

JoinServer::~JoinServer() {
  stop_ = true;
  Wake();
  if (thread_.joinable()) thread_.join();
}

void JoinServer::Wake() {
  const uint64_t one = 1;
  // Fails only when the counter is full, and then the thread is awake.
  (void)!::write(wake_.get(), &one, sizeof one);
}

void JoinServer::Adopt(UniqueFd connection, std::string address) {
  {
    MutexLock lock(mutex_);
    // The thread is behind: what it would refuse anyway need not wait for that.
    if (adopted_.size() >= limits_.connections) return;
    adopted_.emplace_back(std::move(connection), std::move(address));
  }
  Wake();
}

void JoinServer::TakeAdopted() {
  uint64_t count = 0;
  (void)!::read(wake_.get(), &count, sizeof count);
  std::vector<std::pair<UniqueFd, std::string>> adopted;
  {
    MutexLock lock(mutex_);
    adopted.swap(adopted_);
  }
  for (auto& [connection, address] : adopted) {
    ++accepted_;
    Admit(std::move(connection), address);
  }
}

int JoinServer::PollTimeout() const {
  if (connections_.empty() && paused_until_ <= Now()) return -1;
  TimePoint next = TimePoint::max();
  if (paused_until_ > Now()) next = paused_until_;
  for (const JoinConnection& connection : connections_) {
    next = std::min(next, connection.deadline());
  }
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(next - Now()).count();
  return static_cast<int>(std::clamp<int64_t>(wait, 0, 60'000));
}

bool JoinServer::MayStart(const JoinConnection& connection) const {
  size_t all = 0;
  size_t own = 0;
  for (const JoinConnection& other : connections_) {
    if (other.idle()) continue;
    ++all;
    if (other.owner() == connection.owner()) ++own;
  }
  return all < limits_.at_once && own < limits_.at_once_of_one;
}

void JoinServer::Run() {
  while (!stop_) {
    std::vector<pollfd> fds;
    fds.push_back({wake_.get(), POLLIN, 0});
    // A negative descriptor is passed over.
    fds.push_back({paused_until_ > Now() || !listener_ ? -1 : listener_.get(), POLLIN, 0});
    for (const JoinConnection& connection : connections_) {
      const bool waits = connection.idle() && !MayStart(connection);
      fds.push_back({waits ? -1 : connection.fd(), connection.events(), 0});
    }
    const int count = ::poll(fds.data(), fds.size(), PollTimeout());
    if (count < 0 && errno != EINTR) {
      spdlog::error("the join port is not served error={}",
                    LogQuoted(MessageOf(ErrnoStatus(errno, "poll"))));
      return;
    }
    if (stop_) return;
    std::vector<short> ready;
    for (size_t i = kOthers; i < fds.size(); ++i) ready.push_back(count > 0 ? fds[i].revents : 0);
    RefreshContext();
    StepReady(ready);
    RemoveOver();
    if (count > 0 && fds[0].revents != 0) TakeAdopted();
    if (count > 0 && fds[1].revents != 0) AcceptAll();
  }
}

// Sessions that have begun keep the context that they have.
void JoinServer::RefreshContext() {
  const uint64_t version = trust_.version();
  if (version == version_) return;
  absl::StatusOr<TlsContext> context = ContextOf(*trust_.Get());
  if (!context.ok()) {
    spdlog::error("the join port keeps its former certificate error={}",
                  LogQuoted(MessageOf(context.status())));
  } else {
    context_ = *std::move(context);
  }
  version_ = version;
}

void JoinServer::StepReady(const std::vector<short>& ready) {
  size_t index = 0;
  for (JoinConnection& connection : connections_) {
    const bool is_ready = ready[index++] != 0;
    if (Now() >= connection.deadline()) {
      connection.GiveUp(
          connection.idle() ? "nothing was received in time" : "it took longer than allowed",
          handler_);
    } else if (is_ready && (!connection.idle() || MayStart(connection))) {
      connection.Step(context_, handler_);
    }
  }
}

void JoinServer::RemoveOver() {
  connections_.remove_if([](const JoinConnection& connection) { return connection.over(); });
}

void JoinServer::AcceptAll() {
  for (int i = 0; i < kMaxAcceptsAtOnce; ++i) {
    sockaddr_storage address = {};
    socklen_t size = sizeof address;
    UniqueFd fd(::accept4(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size,
                          SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) OutOfDescriptors(errno);
      return;
    }
    told_ = false;
    ++accepted_;
    Admit(std::move(fd), AddressText(address));
  }
}

void JoinServer::OutOfDescriptors(int error_number) {
  if (!std::exchange(told_, true)) {
    spdlog::error("join connections are refused error={}",
                  LogQuoted(MessageOf(ErrnoStatus(error_number, "accept"))));
  }
  // Take one with the reserve and hang up, so that the peer tries again later instead of waiting.
  reserve_.Reset();
  const UniqueFd refused(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  // Without a descriptor it would be tried again and again at once.
  if (!refused) paused_until_ = Now() + kPause;
  reserve_ = OpenReserve();
}

void JoinServer::Admit(UniqueFd fd, const std::string& address) {
  const JoinRate::Answer answer = rate_.Ask(address, Now());
  if (answer != JoinRate::Answer::kAllowed) {
    // A flood is told once, not line by line.
    if (answer == JoinRate::Answer::kRefusedFirst) {
      handler_.Failed(fmt::format("more than {} connections a minute, the next ones are not told",
                                  limits_.per_minute),
                      address);
    }
    return;
  }
  if (connections_.size() >= limits_.connections) {
    const auto oldest = std::find_if(connections_.begin(), connections_.end(),
                                     [](const JoinConnection& other) { return other.idle(); });
    if (oldest == connections_.end()) {
      handler_.Failed("too many connections", address);
      return;
    }
    oldest->GiveUp("nothing was received, and others wait", handler_);
    connections_.erase(oldest);
  }
  connections_.emplace_back(std::move(fd), address, Now() + limits_.in_all);
}

}  // namespace muster
