// `coordinator serve`: the coordinator of a cluster, for as long as the process lives. Its state is
// in one directory, so that it may be killed at any moment and started again: it then goes on with
// the jobs that run.
//
// Directory, mode 0700:
//   lock               held while the process lives
//   store.db, logs/    of the coordinator
//   trust/             of the cluster, when there is one (coordinator init)
//
// Thread-safe after Start. Start, Stop and the destructor block.
#pragma once

#include <absl/status/statusor.h>
#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/io/event_loop.h"
#include "coordinator/core/user_limits.h"

namespace muster {

struct ServiceOptions {
  // Absolute; made when it is missing.
  std::string state_directory;
  // Absolute path of the Unix socket; its folder is made when it is missing.
  std::string socket;
  // Group whose members may submit jobs through the socket; nothing: only this user and root.
  std::optional<gid_t> socket_group;
  // Where to listen on the network once `coordinator init` has made a cluster; see NetworkOptions.
  // Empty: nowhere.
  std::string listen;
  std::vector<std::string> advertised;
  // Before ranks on several nodes start, every node tries to reach where they meet.
  bool probe_rendezvous = true;
  // How often nodes tell what their cards say; 0: never.
  Duration telemetry_interval = std::chrono::seconds(10);
  UserLimits user_limits{.jobs = 1000, .ranks = 100'000};
};

// Where the trust of a cluster is, below the state directory.
std::string TrustDirectoryOf(const std::string& state_directory);

// Where a service of this user keeps its state and listens: $STATE_DIRECTORY and $RUNTIME_DIRECTORY
// as set by systemd; else /var/lib/muster/coordinator and /run/muster for root; else
// $XDG_STATE_HOME (~/.local/state) and $XDG_RUNTIME_DIR. A field stays empty when none of these is
// known.
ServiceOptions DefaultServiceOptions();

class Service {
 public:
  // FAILED_PRECONDITION: another coordinator has the directory or the socket. DATA_LOSS: the store
  // is damaged, and the text says what to do.
  static absl::StatusOr<std::unique_ptr<Service>> Start(ServiceOptions options);
  // Stops if Stop was not called.
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // For tasks beside the coordinator's own.
  EventLoop& loop();
  // Where it listens on the network; empty: nowhere.
  const std::string& network_address() const;
  // One line for people: "3 of 4 nodes in contact, 2 jobs (1 waiting for nodes)". On the loop
  // thread.
  std::string Status() const;

  // Ends all connections; jobs go on. May be called again.
  void Stop();

 private:
  struct Parts;
  explicit Service(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace muster
