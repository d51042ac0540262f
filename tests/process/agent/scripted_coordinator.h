// A coordinator for tests of the agent: a real gRPC server on a Unix socket that keeps what agents
// tell, checks the rules of the protocol (no gap, no byte twice), and wants what the test says.
// Thread-safe.
#pragma once

#include <grpcpp/server.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "muster/v1/agent.grpc.pb.h"

namespace muster {

class ScriptedCoordinator final : private v1::AgentService::Service {
 public:
  using Clock = std::chrono::steady_clock;
  // What the agent told, complete and in order.
  struct State {
    std::vector<v1::Hello> hellos;
    Clock::time_point last_hello;
    std::vector<v1::Event> events;
    uint64_t heartbeats = 0;
    // Frame files by attempt and rank.
    std::map<std::pair<AttemptId, uint32_t>, std::string> logs;
    // Violations of the protocol.
    std::vector<std::string> errors;
    bool connected = false;
  };

  explicit ScriptedCoordinator(std::string socket_path);
  ~ScriptedCoordinator() override;

  std::string target() const { return "unix:" + path_; }
  // Gone without a word; what was told is kept.
  void Stop();
  void Start();

  // Wants this of the node from now on; a generation is given here.
  void Want(v1::Assignment assignment);
  // The attempt is not part of any snapshot any more.
  void Forget(const AttemptId& id);
  void Signal(const AttemptId& id, int signal);

  // Waits until `done` says so; false at the deadline. `done` must not call back.
  bool Wait(const std::function<bool(const State&)>& done,
            std::chrono::seconds limit = std::chrono::seconds(30));
  State Read() const;

 private:
  using SessionStream = grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::AgentMessage>;
  using LogStream = grpc::ServerReaderWriter<v1::UploadLogsResponse, v1::UploadLogsRequest>;

  grpc::Status Session(grpc::ServerContext* context, SessionStream* stream) override;
  grpc::Status UploadLogs(grpc::ServerContext* context, LogStream* stream) override;
  void SendLocked(const v1::CoordinatorMessage& message);
  void OnEventsLocked(const v1::EventBatch& batch);
  v1::CommittedLog CommittedLocked(const v1::LogFile& file) const;

  const std::string path_;
  std::unique_ptr<grpc::Server> server_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  State state_;
  SessionStream* session_ = nullptr;
  uint64_t epoch_ = 0;
  uint64_t sessions_ = 0;
  uint64_t generation_ = 0;
  std::string journal_id_;
  std::map<AttemptId, v1::Assignment> wanted_;
};

}  // namespace muster
