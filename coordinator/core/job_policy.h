// What should happen to a job now. Pure and idempotent: asked again, the answer is the same until
// what it proposed was folded into the record. Usable from any thread.
//
// What a node should do is not decided but follows from the record (AssignmentFor), so that it is
// the same before and after a restart of the coordinator. What is decided becomes an event first.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "coordinator/core/job_record.h"
#include "coordinator/core/rendezvous.h"
#include "muster/internal/record.pb.h"
#include "muster/v1/agent.pb.h"

namespace muster {

// Moments that deadlines count from, on the steady clock. Not stored: after a restart of the
// coordinator they are taken from the record's stamps as well as can be (job_times.h).
struct JobTimes {
  // The job began to wait for its nodes.
  TimePoint waiting_since{};
  // The start must not time out earlier than this: a restarted coordinator gives agents one lease.
  TimePoint patience_until{};
  // First PrepareFailed of the newest attempt.
  std::optional<TimePoint> prepare_failed_since;
  // All nodes of the newest attempt were prepared, and some were still to say what they reach.
  std::optional<TimePoint> probing_since;
  // Ranks of the newest attempt were told to start.
  std::optional<TimePoint> running_since;
  // The newest order to stop was given.
  std::optional<TimePoint> stopping_since;

  // What was noticed already (UpdateTimes).
  bool waiting = false;
  size_t attempts_seen = 0;
  uint32_t orders_seen = 0;
};

// Whether a waiting job could start on the nodes that are there (scheduler.h).
struct Placement {
  // Set when it could.
  std::optional<internal::AttemptPlanned> planned;
  // Set when it never can, whatever nodes join: why.
  std::string error;
  // Otherwise what it waits for: hosts without a node, for example "node-3 (hostfile:3)", or, once
  // every host has one, what may still run on those.
  std::vector<std::string> missing;
  bool hosts_are_there = false;
  // The same in one line, for people who look at the waiting job.
  std::string reason;
};

// Bounds that do not come from the job.
struct PolicyLimits {
  Duration prepare_failure_window = std::chrono::seconds(2);
  Duration stop_confirmation_limit = std::chrono::seconds(60);
  // Whether nodes try to reach the rendezvous before ranks start, and how long a node may take to
  // say what it found: longer than its agent may be away without being lost.
  bool probe_rendezvous = false;
  Duration probe_limit = std::chrono::seconds(15);
};

struct Decision {
  // To be stored and folded, in this order. Times are left out: the caller stamps them.
  std::vector<internal::JobEvent> events;
  // When to ask again even if nothing happens. Unset: no need to.
  std::optional<TimePoint> wake;
};

// `placement` is null while it is not known; only a waiting job needs it. `probe` is null while it
// is not known; only an attempt that MayProbe needs it.
Decision Decide(const JobRecord& job, const JobTimes& times, const Placement* placement,
                const ProbeView* probe, const PolicyLimits& limits, TimePoint now);

// How long the job waits until all nodes are there and prepared.
Duration StartTimeout(const JobRecord& job);

// Level of what the nodes of an attempt are to do: the generation of their assignments, released
// ones apart. It only rises.
uint64_t GenerationOf(const AttemptRecord& attempt);

// Generation of an assignment that releases.
inline constexpr uint64_t kReleasedGeneration = uint64_t{1} << 32;

// What a node of an attempt is to do, without `launch`. `released` says that all of its output is
// stored; it counts once the attempt is over and the node is gone.
v1::Assignment AssignmentFor(const JobId& job, const AttemptRecord& attempt, uint32_t node_index,
                             bool released);

}  // namespace muster
