// The seam between the coordinator's core and what keeps its state (coordinator/store: SqliteStore,
// MemoryStore). The core never acts on, answers or acknowledges anything before Append has reported
// that it is stored: persist, then act, then ack. The store never interprets what it keeps.
//
// Called on the loop thread only. The core has at most one Append in flight.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "common/base/ids.h"
#include "muster/internal/record.pb.h"

namespace muster {

// One event of one job with its place in the job's history.
struct StoredEvent {
  JobId job;
  // Position among the events of the job, from 1, gapless. (job, index) is unique.
  uint64_t index = 0;
  internal::JobEvent event;
};

// Everything that is stored in one step: all of it or nothing.
struct StoreBatch {
  // Appended, in this order. Events of different jobs may be mixed.
  std::vector<StoredEvent> events;
  // Each replaces the record with the same `node_id`.
  std::vector<internal::NodeRecord> nodes;
  // Jobs whose events are deleted. They have no event in the same batch.
  std::vector<JobId> forgotten_jobs;

  bool empty() const { return events.empty() && nodes.empty() && forgotten_jobs.empty(); }
};

// What was stored.
struct StoredState {
  // Number of this take-over, from 1, already stored: larger than that of every Load before.
  uint64_t epoch = 0;
  // In the order in which they were appended. Per job the indices are 1, 2, 3, ...
  std::vector<StoredEvent> events;
  std::vector<internal::NodeRecord> nodes;
};

class Store {
 public:
  using Done = std::function<void(absl::Status)>;

  virtual ~Store() = default;

  // Takes over: raises the epoch by one, durably, and returns everything stored. Blocks. Called
  // once, before any Append.
  virtual absl::StatusOr<StoredState> Load() = 0;

  // Stores `batch` durably, then runs `done` on the executor's thread; never from inside Append.
  // After an error nothing of the batch is stored, and the core appends it again later, with
  // backoff. A store whose policy is best effort reports OK and says on its own that it could not
  // write.
  virtual void Append(StoreBatch batch, Done done) = 0;
};

}  // namespace muster
