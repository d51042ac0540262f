// A Store whose contents outlive the coordinator that writes them: stands for the disk in stories
// about crashes. Can be slow, can fail, and can lose a batch that was on its way when the process
// died.
#pragma once

#include <absl/status/status.h>

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/base/executor.h"
#include "coordinator/core/store.h"

namespace muster::testing {

// What is on the disk.
struct Disk {
  uint64_t epoch = 0;
  std::vector<StoredEvent> events;
  std::map<std::string, internal::NodeRecord> nodes;
  // How long a commit takes.
  Duration latency{};
  // While not OK, commits fail with this.
  absl::Status failure;
  int commits = 0;
};

class DiskStore final : public Store {
 public:
  DiskStore(Executor& executor, Disk& disk) : executor_(executor), disk_(disk) {}

  absl::StatusOr<StoredState> Load() override {
    StoredState state;
    state.epoch = ++disk_.epoch;
    state.events = disk_.events;
    for (const auto& [id, node] : disk_.nodes) state.nodes.push_back(node);
    return state;
  }

  // The batch reaches the disk when the latency is over: a crash before loses it.
  void Append(StoreBatch batch, Done done) override {
    executor_.PostAfter(disk_.latency,
                        [this, batch = std::move(batch), done = std::move(done)]() mutable {
                          if (disk_.failure.ok()) Commit(std::move(batch));
                          done(disk_.failure);
                        });
  }

 private:
  void Commit(StoreBatch batch) {
    ++disk_.commits;
    for (StoredEvent& event : batch.events) disk_.events.push_back(std::move(event));
    for (internal::NodeRecord& node : batch.nodes) disk_.nodes[node.node_id()] = std::move(node);
    for (const JobId& job : batch.forgotten_jobs) {
      std::erase_if(disk_.events, [&](const StoredEvent& event) { return event.job == job; });
    }
  }

  Executor& executor_;
  Disk& disk_;
};

}  // namespace muster::testing
