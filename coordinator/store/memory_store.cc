#include "coordinator/store/memory_store.h"

#include <absl/container/flat_hash_set.h>

#include <algorithm>
#include <utility>

namespace muster {

MemoryStore::MemoryStore(Executor& executor, StoredState state)
    : executor_(executor), state_(std::move(state)) {}

MemoryStore::~MemoryStore() = default;

absl::StatusOr<StoredState> MemoryStore::Load() {
  ++state_.epoch;
  return state_;
}

void MemoryStore::Append(StoreBatch batch, Done done) {
  const absl::flat_hash_set<JobId> forgotten(batch.forgotten_jobs.begin(),
                                             batch.forgotten_jobs.end());
  if (!forgotten.empty()) {
    std::erase_if(state_.events,
                  [&](const StoredEvent& event) { return forgotten.contains(event.job); });
  }
  for (StoredEvent& event : batch.events) state_.events.push_back(std::move(event));
  for (internal::NodeRecord& node : batch.nodes) {
    const auto same = std::find_if(
        state_.nodes.begin(), state_.nodes.end(),
        [&](const internal::NodeRecord& other) { return other.node_id() == node.node_id(); });
    if (same == state_.nodes.end()) {
      state_.nodes.push_back(std::move(node));
    } else {
      *same = std::move(node);
    }
  }
  executor_.Post([alive = std::weak_ptr<int>(alive_), done = std::move(done)] {
    if (!alive.expired()) done(absl::OkStatus());
  });
}

}  // namespace muster
