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
#include "common/log/log.h"

namespace muster {
namespace {

std::optional<gid_t> GidOf(const std::optional<SocketGroup>& group) {
  return group.has_value() ? std::optional(group->gid) : std::nullopt;
}

// True when something accepts connections there.
bool SomebodyListens(const sockaddr_un& address) {
  const UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe) return true;
  const int result =
      ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  return result == 0 || errno == EAGAIN;
}

}  // namespace

AcceptLoop::AcceptLoop(std::string path, std::optional<SocketGroup> group, UniqueFd listener)
    : path_(std::move(path)),
      group_(std::move(group)),
      listener_(std::move(listener)),
      acceptor_(path_) {
  RememberPlace();
}

absl::StatusOr<std::unique_ptr<AcceptLoop>> AcceptLoop::Listen(const std::string& path,
                                                               std::optional<SocketGroup> group) {
  absl::StatusOr<UniqueFd> listener = Bind(path, GidOf(group));
  if (!listener.ok()) return listener.status();
  return std::unique_ptr<AcceptLoop>(new AcceptLoop(path, std::move(group), *std::move(listener)));
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
  absl::StatusOr<UniqueFd> listener = Bind(path_, GidOf(group_));
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
  if (group_.has_value()) names_ = std::make_unique<UserLookups>(loop, group_->lookups);
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
    return Refuse(who, "the kernel does not say who it is");
  }
  if (peers_->IsOwner(who.uid)) {
    peers_->Accepted(connection.get(), who.uid);
    return TakeIn(std::move(connection));
  }
  // The kernel has looked at the mode of the socket; without a group that is nobody else's.
  if (!group_.has_value()) return Refuse(who, "it is another user");
  names_->Ask<std::string>(
      fmt::format("uid {}", who.uid),
      [uid = who.uid, account_name = group_->account_name] { return account_name(uid); },
      [this, who, connection = std::make_shared<UniqueFd>(std::move(connection))](
          const absl::StatusOr<std::string>& name) { OnName(std::move(*connection), who, name); });
}

void AcceptLoop::OnName(UniqueFd connection, const ucred& who,
                        const absl::StatusOr<std::string>& name) {
  if (!name.ok()) {
    const std::string reason(MessageOf(name.status()));
    Refuse(who, reason);
    peers_->Refused(connection.get(), fmt::format("who you are is not known: {}", reason));
  } else if (*name == std::to_string(who.uid)) {
    // Who has no name cannot be told from somebody whose name is that number.
    const std::string reason = fmt::format("uid {} has no name on this machine", who.uid);
    Refuse(who, reason);
    peers_->Refused(connection.get(), fmt::format("who you are is not known: {}", reason));
  } else {
    peers_->Accepted(connection.get(), who.uid, *name);
  }
  TakeIn(std::move(connection));
}

void AcceptLoop::TakeIn(UniqueFd connection) {
  grpc::AddInsecureChannelFromFd(server_, connection.Release());
}

void AcceptLoop::Refuse(const ucred& who, const std::string& reason) const {
  spdlog::warn("connection refused path={} uid={} pid={} reason={}", LogQuoted(path_), who.uid,
               who.pid, LogQuoted(reason));
}

}  // namespace muster
