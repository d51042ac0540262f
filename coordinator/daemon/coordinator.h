// The coordinator of one process: loop thread, store, core, log store, gRPC server. The composition
// root: it owns the parts and connects them, and decides nothing.
//
// Thread-safe after Start. Stop and the destructor block; never call them on the loop or in a
// reaction.
#pragma once

#include <absl/status/statusor.h>
#include <grpcpp/channel.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/io/event_loop.h"
#include "common/rpc/channel.h"
#include "coordinator/core/coordinator_core.h"
#include "coordinator/daemon/network.h"
#include "coordinator/rpc/accept_loop.h"

namespace muster {

struct CoordinatorConfig {
  enum class Durability {
    // What was acknowledged survives the loss of the machine.
    kStrict,
    // It survives the loss of the process; a full disk is reported and does not stop anything.
    kBestEffort,
  };

  // Existing private directory. Holds `store.db` and `logs/`. The caller holds its DirectoryLock.
  std::string directory;
  Durability durability = Durability::kStrict;
  // Damaged stores are moved away instead of refused.
  bool quarantine_damaged = false;
  // Set: nothing is written; the coordinator begins with this state and forgets it at the end.
  std::optional<StoredState> archive;
  // Where connections come from besides this process; may be null.
  std::unique_ptr<AcceptLoop> listener;
  // The same for the network; may be null.
  std::unique_ptr<Network> network;
  CoordinatorOptions core;
  // A job was accepted; called on the loop before the caller hears of it.
  std::function<void(const JobId&)> on_job_accepted;
  // Told in words about trouble that does not stop anything, such as a full disk. Any thread.
  std::function<void(const std::string& message)> on_trouble;
};

class Coordinator {
 public:
  // std::system_error: no thread can be had; the process should end.
  static absl::StatusOr<std::unique_ptr<Coordinator>> Start(CoordinatorConfig config);
  // Stops with the default grace if Stop was not called.
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // A connection to the services inside this process, with the role of its owner.
  std::shared_ptr<grpc::Channel> InProcessChannel(ChannelUse use = ChannelUse::kControl);

  EventLoop& loop();
  // For tasks on the loop.
  CoordinatorCore& core();

  // True when every byte of output that the job's ranks are known to have written is stored here.
  // Blocks.
  bool LogsStored(const JobId& job);

  // Refuses new calls, gives running ones `grace` to end, then ends everything. May be called
  // again.
  void Stop(std::chrono::milliseconds grace = std::chrono::milliseconds(200));

 private:
  struct Parts;
  explicit Coordinator(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace muster
