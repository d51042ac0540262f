// Which events of a batch are new. Pure; usable from any thread.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <fmt/format.h>

#include <cstdint>

#include "muster/v1/agent.pb.h"

namespace muster {

// Index of the first event of `batch` that comes after `received`, the newest event taken so far;
// the size of the batch when all are repeated. FAILED_PRECONDITION when an event is missing, before
// the batch or in it: a bug or two writers, never to be papered over.
inline absl::StatusOr<int> FirstNewEvent(const v1::EventBatch& batch, uint64_t received) {
  if (batch.events().empty()) return 0;
  uint64_t expected = batch.events(0).seq();
  if (expected == 0 || expected > received + 1) {
    return absl::FailedPreconditionError(
        fmt::format("events: seq {} expected next, got {}", received + 1, expected));
  }
  int first_new = batch.events_size();
  for (int i = 0; i < batch.events_size(); ++i, ++expected) {
    const uint64_t seq = batch.events(i).seq();
    if (seq != expected) {
      return absl::FailedPreconditionError(
          fmt::format("events: seq {} expected in a batch, got {}", expected, seq));
    }
    if (seq == received + 1) first_new = i;
  }
  return first_new;
}

}  // namespace muster
