// `--local`: a coordinator in this process and one agent process per host on this machine, for one
// job, on the real path: the agents connect through a Unix socket in a folder that only the user
// can enter.
//
// Folder, below LocalJobsDirectory(): run-<UTC time>-<random>/ with mode 0700 and in it
//   muster-local-job   marks the folder as ours; nothing without it is ever deleted
//   lock               held while the coordinator lives
//   address            `unix:/path` of the socket (`sock` beside it, or a shorter path when that is
//   too long) store.db, logs/    of the coordinator nodes/<n>/         state directory of the n-th
//   agent; `agent.err` is its stderr
// and <job id> -> run-... as a symbolic link, once the job was accepted.
//
// Agents are children of this process. One that dies before anything runs is replaced; later its
// node is lost after its lease, unless somebody starts an agent on the same state directory before
// that (AgentProcesses). When this process dies, agents and ranks notice by their lease and end by
// themselves.
//
// Thread-safe after Start. Start, Stop and the destructor block.
#pragma once

#include <absl/status/statusor.h>
#include <grpcpp/channel.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "common/rpc/channel.h"
#include "muster/v1/job_spec.pb.h"

namespace muster {

struct StandaloneOptions {
  // Hosts of the job, see plan/local_hosts.h for which of them get an agent.
  google::protobuf::RepeatedPtrField<v1::HostEntry> hosts;
  // Folder of all local jobs; empty: LocalJobsDirectory().
  std::string directory;
  // The agent program; empty: `agent` beside this program, or in MUSTER_BIN_DIR.
  std::string agent_program;
  // What agents look for, see AgentProcesses::SetDevices.
  std::string devices;
  std::string sysroot;
  // More agents than this are refused.
  size_t max_agents = 256;
  // Told in words about trouble that does not stop anything: a full disk, an agent that died. Any
  // thread.
  std::function<void(const std::string& message)> on_trouble;
};

class Standalone {
 public:
  // How long a node may be silent, and how long its ranks go on alone. The first must be longer:
  // ranks are gone before their slots are taken for free. `stop_after` belongs into the spec of the
  // job.
  static constexpr std::chrono::seconds kLeaseTtl{7};
  static constexpr std::chrono::seconds kStopAfter{6};

  // Starts the agents, then the coordinator; agents connect while it comes up. FAILED_PRECONDITION:
  // too many agents. NOT_FOUND: no agent program.
  static absl::StatusOr<std::unique_ptr<Standalone>> Start(StandaloneOptions options);
  // Stops if Stop was not called.
  ~Standalone();
  Standalone(const Standalone&) = delete;
  Standalone& operator=(const Standalone&) = delete;

  // A channel to the coordinator.
  std::shared_ptr<grpc::Channel> channel(ChannelUse use = ChannelUse::kControl);
  // The folder of this run.
  const std::string& folder() const;

  // Tells the agents to leave, kills those that have not after `limit`, stops the coordinator,
  // removes what the agents kept of output that is stored, and deletes old runs. May be called
  // again.
  void Stop(std::chrono::milliseconds limit = std::chrono::seconds(10));

 private:
  struct Parts;
  explicit Standalone(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace muster
