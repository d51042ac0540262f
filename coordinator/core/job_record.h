// What is known of one job: the fold of its stored events (job_state.h), and nothing that was not
// stored. Plain values; whoever holds one may read it. Changed by Apply only.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "muster/internal/record.pb.h"
#include "muster/v1/agent.pb.h"
#include "muster/v1/job.pb.h"
#include "muster/v1/types.pb.h"

namespace muster {

// One rank of one attempt.
struct RankProgress {
  uint32_t node_index = 0;
  uint32_t local_rank = 0;
  uint32_t slot = 0;
  v1::JobRank::State state = v1::JobRank::WAITING;
  int32_t pid = 0;
  v1::ExitStatus status;
  // Clock of the node.
  std::optional<google::protobuf::Timestamp> start_time;
  std::optional<google::protobuf::Timestamp> end_time;
  bool log_closed = false;
  uint64_t log_size = 0;
  uint64_t written_bytes = 0;
  uint64_t dropped_bytes = 0;
  std::string lost_reason;
  // From Prepared.
  std::optional<v1::RankPlacement> placement;

  // True when nothing will change any more but its log.
  bool over() const { return state == v1::JobRank::EXITED || state == v1::JobRank::LOST; }
  bool exited_with_zero() const {
    return state == v1::JobRank::EXITED && status.has_exit_code() && status.exit_code() == 0;
  }
};

// One node of one attempt.
struct NodeProgress {
  std::string host;
  NodeId node;
  std::string boot_id;
  std::string journal_id;
  bool slots_are_modules = false;
  // Global ranks, in local order.
  std::vector<uint32_t> ranks;
  v1::JobNode::Phase phase = v1::JobNode::PREPARING;
  std::vector<v1::Problem> problems;
  // From Prepared.
  std::vector<std::string> addresses;
  uint32_t rendezvous_port = 0;
  // Told to try whether it reaches the rendezvous; and what it found.
  bool probe_asked = false;
  std::optional<std::vector<v1::ProbedAddress>> probed;
  // What its checks found. Traits are kept until the ranks are told to start.
  v1::NodeReport report;
  // Its clock minus the coordinator's when it was prepared, if it is known to be wrong.
  std::optional<Duration> clock_offset;
  // What it warned of when it was prepared and is no result of a check, until the job tells it.
  std::vector<std::string> warnings;
  // From AttemptStopped.
  std::vector<std::string> unkillable;
  std::string own_reason;
  // Why it is lost.
  std::string lost_reason;
  // True once nothing of the attempt can run there: it said so, or it is fenced. A lost node is not
  // gone until it comes back.
  bool gone = false;

  // True when the end of the attempt does not wait for this node any more.
  bool settled() const {
    return phase == v1::JobNode::STOPPED || phase == v1::JobNode::LOST ||
           phase == v1::JobNode::PREPARE_FAILED;
  }
};

// Why an attempt fails: the earliest failure, by the clock of its source, of those that were known
// before its nodes were told to stop. A clock that is known to be wrong is corrected.
struct AttemptFailure {
  v1::Job::Cause cause = v1::Job::CAUSE_UNSPECIFIED;
  uint32_t node_index = 0;
  // When it happened, nanoseconds since 1970; nothing when that is not known.
  std::optional<int64_t> time_ns;
  v1::Failure failure;
};

// The order to stop all nodes of an attempt.
struct StopOrder {
  v1::Job::Cause cause = v1::Job::CAUSE_UNSPECIFIED;
  std::string reason;
  Duration grace{};
  // How many orders there were; each later one shortens the grace.
  uint32_t orders = 1;
};

// One gang start.
struct AttemptRecord {
  uint32_t number = 0;
  std::vector<NodeProgress> nodes;
  std::vector<RankProgress> ranks;
  // Set when nodes were told to try where the ranks could meet.
  std::optional<v1::RendezvousProbe> probe;
  // Set when the ranks were told to start.
  std::optional<v1::Rendezvous> rendezvous;
  std::optional<AttemptFailure> failure;
  std::optional<StopOrder> stop;
  // Set when it is over.
  std::optional<internal::Outcome> outcome;

  // Coordinator's clock.
  WallTime planned_time{};
  std::optional<WallTime> gang_start_time;
  std::optional<WallTime> all_running_time;

  // Counts, so that nobody has to scan for them.
  uint32_t prepared_nodes = 0;
  uint32_t prepare_failed_nodes = 0;
  uint32_t probes_asked = 0;
  uint32_t probes_answered = 0;
  uint32_t settled_nodes = 0;
  uint32_t started_ranks = 0;
  uint32_t over_ranks = 0;
  uint32_t zero_ranks = 0;
  // Ranks that ended after the order to stop.
  uint32_t stopped_ranks = 0;

  // Revision of the job at which a node or rank changed last, for watchers.
  std::vector<uint64_t> node_revision;
  std::vector<uint64_t> rank_revision;

  bool over() const { return outcome.has_value(); }
  bool all_settled() const { return settled_nodes == nodes.size(); }
  bool all_zero() const { return zero_ranks == ranks.size(); }
};

// The user's wish that the job ends.
struct CancelWish {
  // 0: SIGTERM.
  int signal = 0;
  // The shortest one asked for; unset: the job's.
  std::optional<Duration> grace;
  std::string reason;
  // True when it came after the job's fate was decided: it shortens the grace, forbids another
  // attempt, and is not the cause of the end.
  bool late = false;
};

struct JobRecord {
  std::string request_id;
  std::string submitter;
  // Never null once the job was submitted. Shared, so that a copy of the record stays cheap.
  std::shared_ptr<const v1::JobSpec> spec;
  v1::Job::State state = v1::Job::STATE_UNSPECIFIED;
  // Events that had an effect.
  uint64_t revision = 0;
  WallTime create_time{};
  // Since when the job waits for its nodes: its creation, or the end of the attempt before.
  WallTime waiting_since{};
  std::optional<WallTime> end_time;
  std::optional<CancelWish> cancel;
  std::vector<std::string> warnings;
  std::vector<AttemptRecord> attempts;
  // Set in terminal states.
  std::optional<internal::Outcome> outcome;

  bool terminal() const { return outcome.has_value(); }
  // The newest attempt while it is not over, else null.
  const AttemptRecord* live_attempt() const {
    return attempts.empty() || attempts.back().over() ? nullptr : &attempts.back();
  }
  const AttemptRecord* FindAttempt(uint32_t number) const {
    return number == 0 || number > attempts.size() ? nullptr : &attempts[number - 1];
  }
};

inline constexpr Duration kDefaultGrace = std::chrono::seconds(30);
inline constexpr Duration kDefaultStartTimeout = std::chrono::minutes(5);

}  // namespace muster
