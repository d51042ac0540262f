// Takes connections of a Unix socket and gives them to a gRPC server. The kernel's word on who
// connects is only to be had here. Lives on the loop thread; never blocks.
//
// Two steps: `Listen` makes the socket, so that peers can connect (and wait) from then on; `Serve`
// begins to accept, once there is a server.
#pragma once

#include <absl/status/statusor.h>
#include <grpcpp/server.h>
#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "common/io/event_loop.h"
#include "common/io/unique_fd.h"
#include "common/io/worker_thread.h"
#include "coordinator/rpc/connection_acceptor.h"
#include "coordinator/rpc/peers.h"

namespace muster {

class AcceptLoop {
 public:
  static constexpr std::chrono::seconds kWatchInterval{2};
  // Longest path of a Unix socket.
  static constexpr size_t kMaxPathBytes = 107;

  // Binds `path`, mode 0600; with a group, 0660 and for members of that group. A socket that is
  // left there and that nobody listens on is replaced. May be called before the loop runs, on any
  // thread. INVALID_ARGUMENT: the path is too long.
  static absl::StatusOr<std::unique_ptr<AcceptLoop>> Listen(
      const std::string& path, std::optional<gid_t> group = std::nullopt);
  // Stops accepting and removes the socket, if it is still this one. Connections that the server
  // has go on.
  ~AcceptLoop();
  AcceptLoop(const AcceptLoop&) = delete;
  AcceptLoop& operator=(const AcceptLoop&) = delete;

  // All outlive this object. Peers that may not connect are hung up on. A socket that somebody
  // removes, with its folder or without, is made again within kWatchInterval.
  void Serve(EventLoop& loop, grpc::Server& server, LocalPeers& peers);

 private:
  AcceptLoop(std::string path, std::optional<gid_t> group, UniqueFd listener);
  static absl::StatusOr<UniqueFd> Bind(const std::string& path, std::optional<gid_t> group);
  void Accept();
  void OnConnection(UniqueFd connection);
  void TakeIn(UniqueFd connection, uid_t uid, std::string user);
  void Refuse(uid_t uid, pid_t pid) const;
  void RememberPlace();
  // True when the path still leads to `listener_`.
  bool IsInPlace() const;
  void WatchPlace();

  const std::string path_;
  // Whose members may connect, besides the owner and root.
  const std::optional<gid_t> group_;
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
  // Asks for names of users, which may take long. Only with a group.
  std::unique_ptr<WorkerThread> names_;
  // Posted tasks look here whether this object still lives.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace muster
