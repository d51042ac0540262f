#include "agent/shim/agent_link.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "agent/shim/text.h"

namespace muster::shim {
namespace {

constexpr char kSocketName[] = "sock";
constexpr size_t kMaxRequestBytes = size_t{1} << 20;
// A record must fit as one packet.
constexpr int kSendBufferBytes = 1 << 20;

// The peer may be the same user or root.
bool PeerIsAllowed(int fd) {
  ucred peer = {};
  socklen_t length = sizeof(peer);
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return false;
  return peer.uid == ::geteuid() || peer.uid == 0;
}

}  // namespace

AgentLink::AgentLink(Poller& poller, RecordJournal& journal, RequestHandler handler)
    : poller_(poller), journal_(journal), handler_(std::move(handler)) {}

AgentLink::~AgentLink() {
  DropCandidate();
  DropAgent();
  if (listener_) poller_.Unwatch(listener_.get());
}

std::string AgentLink::Listen(const std::string& directory) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return "cannot make a socket: " + ErrnoText(errno);
  // By a relative name: a socket address holds 107 bytes of path only.
  if (::chdir(directory.c_str()) != 0) return directory + ": " + ErrnoText(errno);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::string_view(kSocketName).copy(address.sun_path, sizeof(address.sun_path) - 1);
  // What a shim that was killed before it began has left.
  (void)::unlink(kSocketName);
  const mode_t mask = ::umask(0177);
  const int bound = ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  const int bind_error = errno;
  ::umask(mask);
  std::string problem;
  if (bound != 0) {
    problem = "cannot bind " + directory + "/sock: " + ErrnoText(bind_error);
  } else if (::listen(fd.get(), 16) != 0) {
    problem = "cannot listen: " + ErrnoText(errno);
  }
  // No folder is kept from being unmounted.
  if (::chdir("/") != 0 && problem.empty()) problem = "/: " + ErrnoText(errno);
  if (!problem.empty()) return problem;
  listener_ = std::move(fd);
  if (!poller_.Watch(listener_.get(), EPOLLIN, [this](uint32_t) { Accept(); })) {
    return "cannot watch the socket: " + ErrnoText(errno);
  }
  return "";
}

void AgentLink::Accept() {
  UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  // The caller went away again, or descriptors are short: the next one is accepted when they are
  // not.
  if (!fd || !PeerIsAllowed(fd.get())) return;
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_SNDBUF, &kSendBufferBytes, sizeof(kSendBufferBytes));
  DropCandidate();
  candidate_ = std::move(fd);
  if (!poller_.Watch(candidate_.get(), EPOLLIN, [this](uint32_t) { OnReadable(true); })) {
    candidate_.Reset();
  }
}

// Takes one packet. False: nothing to handle; `closed` tells whether the connection is of no more
// use.
bool AgentLink::Receive(int fd, internal::ShimRequest& request, bool& closed) {
  closed = false;
  const ssize_t size = ::recv(fd, nullptr, 0, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);
  if (size < 0) {
    closed = errno != EAGAIN && errno != EINTR;
    return false;
  }
  if (static_cast<size_t>(size) > kMaxRequestBytes) {
    closed = true;
    return false;
  }
  std::string packet(static_cast<size_t>(size), '\0');
  const ssize_t count = ::recv(fd, packet.data(), packet.size(), MSG_DONTWAIT);
  // Nobody sends empty packets: 0 is the end.
  if (count <= 0 || count != size || !request.ParseFromString(packet)) {
    closed = true;
    return false;
  }
  return true;
}

void AgentLink::OnReadable(bool from_candidate) {
  UniqueFd& fd = from_candidate ? candidate_ : agent_;
  internal::ShimRequest request;
  bool closed = false;
  if (!Receive(fd.get(), request, closed)) {
    if (closed) from_candidate ? DropCandidate() : DropAgent();
    return;
  }
  if (!from_candidate) {
    // A second attach starts the replay anew.
    if (request.has_attach()) {
      next_index_ = request.attach().next_index();
      ++attaches_;
    } else {
      handler_(request);
    }
    return;
  }
  if (!request.has_attach()) return DropCandidate();
  Attach(request.attach().next_index());
}

void AgentLink::Attach(uint64_t next_index) {
  DropAgent();
  poller_.Unwatch(candidate_.get());
  agent_ = std::move(candidate_);
  next_index_ = next_index;
  ++attaches_;
  WatchAgent(/*for_room=*/false);
}

void AgentLink::WatchAgent(bool for_room) {
  waits_for_room_ = for_room;
  const uint32_t wanted = for_room ? EPOLLIN | EPOLLOUT : EPOLLIN;
  const bool watched = poller_.Watch(agent_.get(), wanted, [this](uint32_t events) {
    if ((events & EPOLLOUT) != 0) WatchAgent(/*for_room=*/false);
    if (agent_ && (events & ~static_cast<uint32_t>(EPOLLOUT)) != 0) OnReadable(false);
  });
  if (!watched) agent_.Reset();
}

void AgentLink::SendRecords() {
  if (next_index_ == 0) next_index_ = 1;
  while (agent_ && !waits_for_room_ && next_index_ < journal_.flushed_index()) {
    if (SendPacket(journal_.Serialised(next_index_))) ++next_index_;
  }
}

bool AgentLink::Send(const internal::ShimRecord& packet) {
  return CanSend() && SendPacket(packet.SerializeAsString());
}

// False: not sent. Then there is no agent any more, or it has to make room first.
bool AgentLink::SendPacket(std::string_view packet) {
  ssize_t sent = 0;
  do {
    sent = ::send(agent_.get(), packet.data(), packet.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return true;
  if (errno == EAGAIN) {
    WatchAgent(/*for_room=*/true);
  } else {
    DropAgent();
  }
  return false;
}

void AgentLink::DropCandidate() {
  if (!candidate_) return;
  poller_.Unwatch(candidate_.get());
  candidate_.Reset();
}

void AgentLink::DropAgent() {
  if (!agent_) return;
  poller_.Unwatch(agent_.get());
  agent_.Reset();
}

}  // namespace muster::shim
