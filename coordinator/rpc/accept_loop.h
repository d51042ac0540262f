// Takes connections of a Unix socket and gives them to a gRPC server. The kernel's word on who
// connects is only to be had here. Lives on the loop thread; never blocks.
//
// Two steps: `Listen` makes the socket, so that peers can connect (and wait) from then on; `Serve`
// begins to accept, once there is a server.
#pragma once

#include <absl/status/statusor.h>
#include <grpcpp/server.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/io/account.h"
#include "common/io/event_loop.h"
#include "common/io/unique_fd.h"
#include "common/io/user_lookups.h"
#include "coordinator/rpc/connection_acceptor.h"
#include "coordinator/rpc/peers.h"

namespace muster {

// A group whose members may connect, besides the owner and root, who never wait for lookups.
struct SocketGroup {
  gid_t gid = 0;
  // Name of a user; its number when it has none. May hang.
  std::function<std::string(uid_t)> account_name = AccountName;
  UserLookups::Options lookups = {};
};

class AcceptLoop {
 public:
  static constexpr std::chrono::seconds kWatchInterval{2};
  // Longest path of a Unix socket.
  static constexpr size_t kMaxPathBytes = 107;

  // Binds `path`, mode 0600; with a group, 0660 and for members of that group. A socket that is
  // left there and that nobody listens on is replaced. May be called before the loop runs, on any
  // thread. INVALID_ARGUMENT: the path is too long.
  static absl::StatusOr<std::unique_ptr<AcceptLoop>> Listen(
      const std::string& path, std::optional<SocketGroup> group = std::nullopt);
  // Stops accepting and removes the socket, if it is still this one. Connections that the server
  // has go on.
  ~AcceptLoop();
  AcceptLoop(const AcceptLoop&) = delete;
  AcceptLoop& operator=(const AcceptLoop&) = delete;

  // All outlive this object. Peers that may not connect are hung up on; calls of members of the
  // group whose name is not found are refused with the reason. A socket that somebody
  // removes, with its folder or without, is made again within kWatchInterval.
  void Serve(EventLoop& loop, grpc::Server& server, LocalPeers& peers);

 private:
  AcceptLoop(std::string path, std::optional<SocketGroup> group, UniqueFd listener);
  static absl::StatusOr<UniqueFd> Bind(const std::string& path, std::optional<gid_t> group);
  void Accept();
  void OnConnection(UniqueFd connection);
  // A member of the group, once its name was looked up.
  void OnName(UniqueFd connection, const ucred& who, const absl::StatusOr<std::string>& name);
  // Before the server can see a call on it, `peers_` must know of it.
  void TakeIn(UniqueFd connection);
  void Refuse(const ucred& who, const std::string& reason) const;
  void RememberPlace();
  // True when the path still leads to `listener_`.
  bool IsInPlace() const;
  void WatchPlace();

  const std::string path_;
  const std::optional<SocketGroup> group_;
  UniqueFd listener_;
  // Of the socket in the file system.
  ino_t inode_ = 0;
  dev_t device_ = 0;
  ConnectionAcceptor acceptor_;
  EventLoop* loop_ = nullptr;
  grpc::Server* server_ = nullptr;
  LocalPeers* peers_ = nullptr;
  Executor::TimerId watch_timer_ = 0;
  bool place_taken_told_ = false;
  // Only with a group, and when it serves.
  std::unique_ptr<UserLookups> names_;
};

}  // namespace muster
