// All jobs of a coordinator, found by what they are asked for. Lives on the loop thread. Changes
// nothing in a job: events do (CoreImpl::Record).
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "coordinator/core/job_policy.h"
#include "coordinator/core/job_record.h"
#include "coordinator/core/user_limits.h"
#include "muster/v1/job.pb.h"

namespace muster {

// A job with what is known about it and not stored.
struct JobEntry {
  JobId id;
  // Order of submission.
  uint64_t sequence = 0;
  JobRecord record;
  JobTimes times;
  // Events stored or about to be, and those that are stored.
  uint64_t events = 0;
  uint64_t stored_events = 0;

  // While it waits: what for, and who serves which host (per host of the spec, empty: nobody).
  std::string waiting_reason;
  std::vector<NodeId> node_of_host;
  std::optional<TimePoint> placed_at;
  // Changes of what is not stored: the waiting reason, contact with nodes. Begins higher in every
  // epoch, so that the revision that people see never goes back.
  uint64_t volatile_revision = 0;

  // What the nodes of the live attempt are to launch, without environments.
  std::shared_ptr<const v1::Plan> layout;
  // Level of the live attempt's assignments that was sent to its nodes.
  uint64_t published_generation = 0;
  // Per attempt and rank: bytes of the frame file that are stored.
  std::vector<std::vector<uint64_t>> committed;
  // Per attempt and node: nothing of it is needed there any more.
  std::vector<std::vector<bool>> released;

  // What of it counts among its submitter's; see JobIndex::UsageOf.
  UserUsage counted;

  // Part of the batch that is being stored: nobody may see it yet.
  bool in_flight = false;
  // To be looked at in this turn.
  bool touched = false;
  std::optional<TimePoint> wake;
  uint32_t watchers = 0;

  // False while the record shows something that a crash would take back.
  bool stored() const { return stored_events == events; }
};

// One node of one attempt.
struct AttemptNodeRef {
  JobEntry* job = nullptr;
  uint32_t attempt = 0;
  uint32_t node_index = 0;
};

class JobIndex {
 public:
  // Number of this take-over, from 1. To be set before anything is added.
  void set_epoch(uint64_t epoch) { first_volatile_revision_ = (epoch - 1) << 24; }
  // Adds a job without a record. The id is not in use.
  JobEntry& Add(JobId id);
  // Forgets a job and everything that leads to it.
  void Remove(JobEntry& entry);
  JobEntry* Find(const JobId& id);
  const JobEntry* Find(const JobId& id) const;

  // Brings the index in step with the record, after it changed. Cheap when nothing indexed changed.
  void Update(JobEntry& entry);

  // The job that a submitter sent with this request id; null for an empty id.
  JobEntry* FindByRequest(const std::string& submitter, const std::string& request_id);
  // Attempts that a node has something of: they are not over, or may still run there, or its output
  // is not stored yet.
  const std::vector<AttemptNodeRef>& OnNode(const NodeId& node) const;
  // Position of a node in an attempt.
  static std::optional<uint32_t> NodeIndexOf(const AttemptRecord& attempt, const NodeId& node);
  // Drops the reference to a node of an attempt: nothing of it is needed there any more.
  void DropRef(const NodeId& node, const JobEntry& entry, uint32_t attempt);

  // Jobs that wait for nodes.
  const std::set<JobEntry*>& waiting() const { return waiting_; }
  // By order of submission.
  const std::map<uint64_t, JobEntry*>& by_sequence() const { return by_sequence_; }
  // Jobs that ended, by order of submission.
  const std::map<uint64_t, JobEntry*>& ended() const { return ended_; }
  // Ranks of all attempts of those.
  size_t ended_ranks() const { return ended_ranks_; }
  // Ranks of all attempts of a job.
  static size_t RanksOf(const JobEntry& entry);

  // What jobs of a submitter that have not ended come to.
  UserUsage UsageOf(const std::string& submitter) const;

  // When the policy wants to be asked about a job again.
  void SetWake(JobEntry& entry, std::optional<TimePoint> wake);
  std::optional<TimePoint> NextWake() const;
  // Jobs whose time has come.
  std::vector<JobEntry*> Due(TimePoint now) const;

 private:
  // From now on `usage` of the job counts.
  void Count(JobEntry& entry, const UserUsage& usage);

  uint64_t last_sequence_ = 0;
  uint64_t first_volatile_revision_ = 0;
  absl::flat_hash_map<JobId, std::unique_ptr<JobEntry>> jobs_;
  // By submitter and request id.
  absl::flat_hash_map<std::pair<std::string, std::string>, JobEntry*> by_request_;
  // By submitter; who has nothing is not there.
  absl::flat_hash_map<std::string, UserUsage> usage_;
  absl::flat_hash_map<NodeId, std::vector<AttemptNodeRef>> on_node_;
  std::map<uint64_t, JobEntry*> by_sequence_;
  std::map<uint64_t, JobEntry*> ended_;
  size_t ended_ranks_ = 0;
  std::set<JobEntry*> waiting_;
  std::set<std::pair<TimePoint, uint64_t>> wakes_;
};

}  // namespace muster
