// One life of the coordinator process in a simulation: the real core on a store that may fail or
// take the process down at any write, and a plain log receiver. `CoordinatorDisk` is what survives
// it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/core/coordinator_core.h"
#include "coordinator/core/store.h"
#include "tests/sim/cluster/random.h"
#include "tests/sim/cluster/sim_stream.h"
#include "tests/sim/cluster/truth.h"
#include "tests/testing/memory_agent_store.h"
#include "tests/testing/sim_executor.h"

namespace muster::testing {

using SessionStream = SimStream<v1::AgentMessage, v1::CoordinatorMessage>;
using LogStream = SimStream<v1::UploadLogsRequest, v1::UploadLogsResponse>;
using LogKey = std::pair<AttemptId, uint32_t>;

struct CoordinatorDisk {
  uint64_t epoch = 0;
  std::vector<StoredEvent> events;
  std::map<std::string, internal::NodeRecord> nodes;
  std::map<LogKey, std::string> logs;
};

// A Store whose writes end as `fate` says.
class SimStore final : public Store {
 public:
  SimStore(SimExecutor& process, Random& random, CoordinatorDisk& disk,
           std::function<Persist()> fate, std::function<void(const StoreBatch&)> on_stored)
      : process_(process),
        random_(random),
        disk_(disk),
        fate_(std::move(fate)),
        on_stored_(std::move(on_stored)) {}

  absl::StatusOr<StoredState> Load() override;
  void Append(StoreBatch batch, Done done) override;

 private:
  void Apply(const StoreBatch& batch);

  SimExecutor& process_;
  Random& random_;
  CoordinatorDisk& disk_;
  std::function<Persist()> fate_;
  std::function<void(const StoreBatch&)> on_stored_;
};

class SimCoordinator {
 public:
  struct Hooks {
    // Fate of the next write.
    std::function<Persist()> fate;
    // A batch reached the disk.
    std::function<void(const StoreBatch&)> on_stored;
  };

  SimCoordinator(SimQueue& queue, Random& random, Truth& truth, CoordinatorDisk& disk,
                 const CoordinatorOptions& options, Hooks hooks);
  ~SimCoordinator();

  // A node opened a stream.
  void Accept(const NodeId& node, std::shared_ptr<SessionStream> stream);
  void AcceptLogs(const NodeId& node, std::shared_ptr<LogStream> stream);
  // The process dies; streams end, what the page cache held of logs may be gone. Destroy it soon.
  void Die();
  bool alive() const { return process_.alive(); }

  CoordinatorCore& core() { return *core_; }
  SimExecutor& process() { return process_; }

 private:
  struct Session;
  struct Upload;

  void OnUpload(Upload& upload, const v1::UploadLogsRequest& request);
  void OpenFile(Upload& upload, const v1::LogFile& file);
  void OnChunk(Upload& upload, const v1::LogChunk& chunk);
  void Refuse(Upload& upload, const std::string& why);
  void Flush();

  SimQueue& queue_;
  Random& random_;
  Truth& truth_;
  CoordinatorDisk& disk_;
  SimExecutor process_;
  SimStore store_;
  std::unique_ptr<CoordinatorCore> core_;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::vector<std::unique_ptr<Upload>> uploads_;
  // Received, not yet on the disk: all bytes of a file.
  std::map<LogKey, std::string> received_;
  bool flush_posted_ = false;
};

}  // namespace muster::testing
