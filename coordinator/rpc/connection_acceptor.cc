#include "coordinator/rpc/connection_acceptor.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "common/base/annotate.h"
#include "common/log/log.h"

namespace muster {
namespace {

// Connections of one turn, so that a flood of them cannot starve the loop.
constexpr int kMostAtOnce = 64;

UniqueFd OpenReserve() { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

}  // namespace

ConnectionAcceptor::ConnectionAcceptor(std::string name)
    : name_(std::move(name)), reserve_(OpenReserve()) {}

ConnectionAcceptor::~ConnectionAcceptor() { End(); }

void ConnectionAcceptor::Begin(EventLoop& loop, int listener, OnConnection on_connection) {
  End();
  loop_ = &loop;
  listener_ = listener;
  on_connection_ = std::move(on_connection);
  loop_->WatchFd(listener_, EPOLLIN, [this](uint32_t) { AcceptAll(); });
}

void ConnectionAcceptor::End() {
  if (loop_ != nullptr) loop_->UnwatchFd(listener_);
  loop_ = nullptr;
}

void ConnectionAcceptor::AcceptAll() {
  for (int i = 0; i < kMostAtOnce; ++i) {
    UniqueFd connection(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        OutOfDescriptors(errno);
      } else if (errno != EAGAIN) {
        spdlog::warn("accept failed socket={} error={}", LogQuoted(name_),
                     LogQuoted(MessageOf(ErrnoStatus(errno, "accept"))));
      }
      return;
    }
    on_connection_(std::move(connection));
  }
}

void ConnectionAcceptor::OutOfDescriptors(int error_number) {
  if (told_.Allows(loop_->clock().Now())) {
    spdlog::error("connections are refused socket={} error={}", LogQuoted(name_),
                  LogQuoted(MessageOf(ErrnoStatus(error_number, "accept"))));
  }
  // Take one with the reserve and hang up, so that the peer tries again later instead of waiting.
  reserve_.Reset();
  const UniqueFd refused(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC));
  reserve_ = OpenReserve();
}

}  // namespace muster
