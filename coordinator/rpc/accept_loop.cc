#include "coordinator/rpc/accept_loop.h"

#include <fmt/format.h>
#include <grpcpp/server_posix.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/annotate.h"
#include "common/io/account.h"
#include "common/log/log.h"

namespace muster {
namespace {

// True when something accepts connections there.
bool SomebodyListens(const sockaddr_un& address) {
  const UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe) return true;
  const int result =
      ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  return result == 0 || errno == EAGAIN;
}

}  // namespace

AcceptLoop::AcceptLoop(std::string path, std::optional<gid_t> group, UniqueFd listener)
    : path_(std::move(path)), group_(group), listener_(std::move(listener)), acceptor_(path_) {
  RememberPlace();
  if (group_.has_value()) names_ = std::make_unique<WorkerThread>("user-names");
}

absl::StatusOr<std::unique_ptr<AcceptLoop>> AcceptLoop::Listen(const std::string& path,
                                                               std::optional<gid_t> group) {
  absl::StatusOr<UniqueFd> listener = Bind(path, group);
  if (!listener.ok()) return listener.status();
  return std::unique_ptr<AcceptLoop>(new AcceptLoop(path, group, *std::move(listener)));
}

absl::StatusOr<UniqueFd> AcceptLoop::Bind(const std::string& path, std::optional<gid_t> group) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() > kMaxPathBytes) {
    return absl::InvalidArgumentError(fmt::format(
        "socket path '{}' must have 1 to {} bytes, has {}", path, kMaxPathBytes, path.size()));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener) return ErrnoStatus(errno, "make a Unix socket");
  const auto bind_it = [&] {
    return ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  };
  int result = bind_it();
  if (result != 0 && errno == EADDRINUSE) {
    if (SomebodyListens(address)) {
      return absl::FailedPreconditionError(
          fmt::format("socket {} is in use by another coordinator", path));
    }
    // Left by a process that was killed.
    ::unlink(path.c_str());
    result = bind_it();
  }
  if (result != 0) return ErrnoStatus(errno, fmt::format("bind {}", path));
  // Nobody can connect before `listen`, so it does not matter what the mode was.
  if (group.has_value() && ::chown(path.c_str(), uid_t{0} - 1, *group) != 0) {
    return ErrnoStatus(errno, fmt::format("give {} to group {}", path, *group));
  }
  if (::chmod(path.c_str(), group.has_value() ? 0660 : 0600) != 0) {
    return ErrnoStatus(errno, fmt::format("chmod {}", path));
  }
  if (::listen(listener.get(), 1024) != 0)
    return ErrnoStatus(errno, fmt::format("listen {}", path));
  return listener;
}

AcceptLoop::~AcceptLoop() {
  alive_.reset();
  names_.reset();
  if (loop_ != nullptr) loop_->Cancel(watch_timer_);
  if (IsInPlace()) ::unlink(path_.c_str());
}

void AcceptLoop::RememberPlace() {
  struct stat info = {};
  if (::stat(path_.c_str(), &info) != 0) return;
  inode_ = info.st_ino;
  device_ = info.st_dev;
}

bool AcceptLoop::IsInPlace() const {
  struct stat info = {};
  return ::stat(path_.c_str(), &info) == 0 && info.st_ino == inode_ && info.st_dev == device_;
}

void AcceptLoop::WatchPlace() {
  watch_timer_ = loop_->PostAfter(kWatchInterval, [this] { WatchPlace(); });
  if (IsInPlace()) return;
  ::mkdir(path_.substr(0, path_.rfind('/')).c_str(), group_.has_value() ? 0755 : 0700);
  absl::StatusOr<UniqueFd> listener = Bind(path_, group_);
  if (!listener.ok()) {
    if (std::exchange(place_taken_told_, true)) return;
    spdlog::error("the socket is gone and cannot be made again path={} error={}", LogQuoted(path_),
                  LogQuoted(MessageOf(listener.status())));
    return;
  }
  spdlog::warn("the socket was gone and was made again path={}", LogQuoted(path_));
  place_taken_told_ = false;
  // The old one is open until the acceptor has let go of it.
  const UniqueFd gone = std::exchange(listener_, *std::move(listener));
  RememberPlace();
  Accept();
}

void AcceptLoop::Serve(EventLoop& loop, grpc::Server& server, LocalPeers& peers) {
  loop_ = &loop;
  server_ = &server;
  peers_ = &peers;
  Accept();
  watch_timer_ = loop.PostAfter(kWatchInterval, [this] { WatchPlace(); });
}

void AcceptLoop::Accept() {
  acceptor_.Begin(*loop_, listener_.get(),
                  [this](UniqueFd connection) { OnConnection(std::move(connection)); });
}

void AcceptLoop::OnConnection(UniqueFd connection) {
  ucred who = {};
  socklen_t size = sizeof who;
  if (::getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) {
    return Refuse(who.uid, who.pid);
  }
  if (peers_->IsOwner(who.uid)) return TakeIn(std::move(connection), who.uid, "");
  // The kernel has looked at the mode of the socket; without a group that is nobody else's.
  if (!group_.has_value()) return Refuse(who.uid, who.pid);
  names_->Post([this, alive = std::weak_ptr<int>(alive_), who,
                connection = std::make_shared<UniqueFd>(std::move(connection))] {
    loop_->Post([this, alive, who, connection, user = AccountName(who.uid)] {
      if (alive.expired()) return;
      // Who has no name cannot be told from somebody whose name is that number.
      if (user == std::to_string(who.uid)) return Refuse(who.uid, who.pid);
      TakeIn(std::move(*connection), who.uid, user);
    });
  });
}

void AcceptLoop::TakeIn(UniqueFd connection, uid_t uid, std::string user) {
  // Before the server can see a call on it.
  peers_->Accepted(connection.get(), uid, std::move(user));
  grpc::AddInsecureChannelFromFd(server_, connection.Release());
}

void AcceptLoop::Refuse(uid_t uid, pid_t pid) const {
  spdlog::warn("connection refused path={} uid={} pid={}", LogQuoted(path_), uid, pid);
}

}  // namespace muster
