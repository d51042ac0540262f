// Says who is at the other end of a call. Thread-safe.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/server.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/server_callback.h>
#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "coordinator/rpc/authorizer.h"

namespace muster {

struct Peer {
  Role role = Role::kNobody;
  // Name of the user; empty when it is not known.
  std::string user = "";
  // Node that the credentials are for; nothing when they are good for any.
  std::optional<NodeId> node = std::nullopt;
  // Serial number of its certificate; empty when it has none.
  std::string serial = "";
  // The certificate, PEM.
  std::string certificate = "";
  // Why the role is kNobody, for the peer; empty when there is no more to say.
  std::string refusal = "";
};

// Finds the peer of a call.
class PeerDirectory {
 public:
  virtual ~PeerDirectory() = default;
  // Role kNobody for whoever is not known.
  virtual Peer Identify(const grpc::CallbackServerContext& call) const = 0;
};

// Peers on this machine: connections made inside this process, and those of a Unix socket by what
// the kernel says of the other end. The owner of this process and root are admins; others that were
// let in submit jobs.
class LocalPeers final : public PeerDirectory {
 public:
  LocalPeers();

  Peer Identify(const grpc::CallbackServerContext& call) const override;
  // The peer of a connection by gRPC's name of it (`ServerContext::peer()`).
  Peer IdentifyConnection(const std::string& connection) const;

  // A channel to `server` inside this process whose calls are the owner's: they carry a secret that
  // never leaves the process.
  std::shared_ptr<grpc::Channel> InProcessChannel(grpc::Server& server,
                                                  const grpc::ChannelArguments& settings) const;

  // True for the owner of this process and root.
  bool IsOwner(uid_t uid) const { return uid == owner_ || uid == 0; }
  // A connection of `uid`, who has this name, is about to be taken over by gRPC as file descriptor
  // `fd`. Of owners the name is not needed.
  void Accepted(int fd, uid_t uid, std::string user = "");
  // The same for one whose calls are all refused: `reason` is what it is told.
  void Refused(int fd, std::string reason);

 private:
  const uid_t owner_;
  const std::string owner_name_;
  const std::string secret_;
  mutable Mutex mutex_;
  // By gRPC's name of the connection. An entry is replaced when the kernel gives its number to a
  // later connection, which cannot happen while the earlier one is open.
  std::map<std::string, Peer> users_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster
