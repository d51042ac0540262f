#include "agent/supervise/shim_connection.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "agent/supervise/attempt_directory.h"
#include "common/base/annotate.h"

namespace muster {
namespace {

// Packets taken per turn of the loop, so that a chatty shim does not starve the others.
constexpr int kPacketsPerTurn = 64;

}  // namespace

absl::StatusOr<std::unique_ptr<ShimConnection>> ShimConnection::Connect(EventLoop& loop,
                                                                        int directory_fd,
                                                                        Callbacks callbacks) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return ErrnoStatus(errno, "socket");
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  // By the open directory: the full path can be longer than the 107 bytes of an address.
  const std::string path = fmt::format("/proc/self/fd/{}/{}", directory_fd, kSocketFile);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    const int error = errno;
    // EAGAIN: its queue of connections is full.
    if (error == ENOENT || error == ECONNREFUSED || error == EAGAIN) {
      return absl::UnavailableError(MessageOf(ErrnoStatus(error, "connect to the shim")).data());
    }
    return ErrnoStatus(error, "connect to the shim");
  }
  return std::unique_ptr<ShimConnection>(
      new ShimConnection(loop, std::move(socket), std::move(callbacks)));
}

ShimConnection::ShimConnection(EventLoop& loop, UniqueFd socket, Callbacks callbacks)
    : loop_(loop), socket_(std::move(socket)), callbacks_(std::move(callbacks)) {
  Rewatch();
}

ShimConnection::~ShimConnection() { Disconnect(); }

void ShimConnection::Disconnect() {
  if (!socket_) return;
  loop_.UnwatchFd(socket_.get());
  socket_.Reset();
  waiting_.clear();
}

void ShimConnection::Send(const internal::ShimRequest& request) {
  if (!socket_) return;
  waiting_.push_back(request.SerializeAsString());
  if (watching_output_) {
    // Posted, because the caller does not expect a callback from inside its call.
    if (waiting_.size() > kMostWaiting) {
      waiting_.clear();
      ::shutdown(socket_.get(), SHUT_RDWR);
    }
    return;
  }
  // A failure shows as the end of the stream in the next turn.
  (void)Flush();
  Rewatch();
}

void ShimConnection::Rewatch() {
  const bool output = !waiting_.empty();
  watching_output_ = output;
  loop_.WatchFd(socket_.get(), output ? EPOLLIN | EPOLLOUT : EPOLLIN,
                [this](uint32_t events) { OnReady(events); });
}

void ShimConnection::OnReady(uint32_t events) {
  if ((events & EPOLLOUT) != 0) {
    if (!Flush()) {
      Close("the shim closed its end");
      return;
    }
    if (waiting_.empty()) Rewatch();
  }
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0) return;
  for (int i = 0; i < kPacketsPerTurn; ++i) {
    if (!socket_ || !Receive()) return;
  }
}

// False when there is nothing more to receive now, or the connection is closed.
bool ShimConnection::Receive() {
  const ssize_t size = ::recv(socket_.get(), nullptr, 0, MSG_PEEK | MSG_TRUNC);
  if (size < 0) {
    if (errno == EAGAIN || errno == EINTR) return false;
    Close(fmt::format("receive from the shim: {}", std::strerror(errno)));
    return false;
  }
  if (size == 0) {
    Close("the shim closed its end");
    return false;
  }
  std::string packet(static_cast<size_t>(size), '\0');
  const ssize_t got = ::recv(socket_.get(), packet.data(), packet.size(), 0);
  internal::ShimRecord record;
  if (got != size || !record.ParseFromString(packet)) {
    Close("the shim sent what is not understood");
    return false;
  }
  callbacks_.record(record);
  return true;
}

// False when the connection is broken.
bool ShimConnection::Flush() {
  while (!waiting_.empty()) {
    const std::string& packet = waiting_.front();
    if (::send(socket_.get(), packet.data(), packet.size(), MSG_NOSIGNAL) < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN;
    }
    waiting_.pop_front();
  }
  return true;
}

void ShimConnection::Close(const std::string& reason) {
  Disconnect();
  callbacks_.closed(reason);
}

}  // namespace muster
