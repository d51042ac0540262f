// The one network port. Takes connections and looks at the first message of their TLS handshake,
// without answering: who speaks gRPC goes to the gRPC server, which demands a certificate of the
// cluster; who wants to join goes to the join server; everything else is hung up on. A connection
// that says nothing costs a file descriptor for kPatience. Lives on the loop thread; never blocks.
#pragma once

#include <absl/status/statusor.h>
#include <grpcpp/server_builder.h>
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/rate_limit.h"
#include "common/io/event_loop.h"
#include "common/io/unique_fd.h"
#include "coordinator/rpc/connection_acceptor.h"

namespace muster {

class NetworkListener {
 public:
  // Open connections at a time; more are hung up on.
  struct Limits {
    // Of one address. An agent has two, and a whole cluster may come from one address.
    size_t per_address = 2048;
    size_t in_all = 8192;
    // The same of those that have not said yet what they want: the oldest makes room for others.
    size_t undecided = 1024;
    // What a process that may have so many files open can afford: strangers must leave enough of
    // them to its store, its logs and the peers of its own machine.
    static Limits ForFiles(size_t files);
  };
  static constexpr std::chrono::seconds kPatience{5};

  // Who takes connections. `host`: numeric address of the peer.
  struct Takers {
    grpc::experimental::ExternalConnectionAcceptor* grpc = nullptr;
    std::function<void(UniqueFd connection, const std::string& host)> join;
  };

  ~NetworkListener();

  // Binds `address`: HOST:PORT, [IPv6]:PORT or :PORT (every address of the machine, both families);
  // port 0: any free one. INVALID_ARGUMENT: it is none. FAILED_PRECONDITION: it is in use, by
  // another coordinator perhaps.
  static absl::StatusOr<std::unique_ptr<NetworkListener>> Listen(const std::string& address,
                                                                 Limits limits);

  // Where it listens, with the number of the port.
  const std::string& address() const { return address_; }
  int port() const { return port_; }

  // `loop` and the takers outlive this object.
  void Serve(EventLoop& loop, Takers takers);

  // Connections that gRPC has.
  size_t open_connections();

 private:
  // A connection that was given to gRPC, which closes it.
  struct Connection {
    int fd = -1;
    ino_t inode = 0;
  };

  // A connection that has not said yet what it wants.
  struct Undecided {
    UniqueFd connection;
    std::string host;
    Executor::TimerId timer = 0;
  };

  NetworkListener(UniqueFd listener, std::string address, int port, Limits limits);
  void OnConnection(UniqueFd connection);
  void Look(uint64_t number, uint32_t events);
  // Takes the connection away from those that are undecided.
  UniqueFd Decide(uint64_t number);
  void GiveToGrpc(UniqueFd connection, const std::string& host);
  bool HasRoomFor(const std::string& host);
  // Forgets those that were closed.
  static void Prune(std::vector<Connection>& connections);

  const UniqueFd listener_;
  const std::string address_;
  const int port_;
  const Limits limits_;
  EventLoop* loop_ = nullptr;
  Takers takers_;
  // In the order in which they came.
  std::map<uint64_t, Undecided> undecided_;
  uint64_t last_number_ = 0;
  // Of gRPC, by address.
  std::map<std::string, std::vector<Connection>> connections_;
  size_t count_ = 0;
  TimePoint pruned_at_{};
  RateLimit refusals_told_{1, std::chrono::seconds(10)};
  ConnectionAcceptor acceptor_;
};

}  // namespace muster
