// The coordinator without its transports: takes sessions of agents and calls of clients, keeps jobs
// and nodes as folds of stored events, and decides what every node is to do. Owns all mutable state
// of the coordinator. Lives on the loop thread of its executor; every method is called there and
// every callback runs there, never from inside the call that it was given to. It never blocks
// (except in Start), and it never touches gRPC, files or log bytes.
//
// One turn:   inputs wait in an inbox -> events are folded into jobs (Apply), decisions add events
//             (Decide) -> one Store::Append -> only then: assignments, acks, answers, watchers.
// While an Append is in flight new inputs wait, so that what anybody sees was stored. After a
// failed Append the same batch is tried again with backoff; jobs submitted meanwhile are refused
// with RESOURCE_EXHAUSTED, running jobs go on, nothing is acknowledged.
//
// What the core expects of agents, beyond proto/muster/v1/agent.proto:
// * STOPPED for an attempt that the agent does not hold is answered by AttemptStopped, once the
// agent
//   has made sure that nothing of it runs; what comes later with a lower generation is ignored.
// * RankLogClosed of every rank with a frame file comes before AttemptStopped.
// * PrepareFailed means that nothing was started and nothing is left.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/executor.h"
#include "common/base/ids.h"
#include "coordinator/core/caller.h"
#include "coordinator/core/check_desk.h"
#include "coordinator/core/store.h"
#include "coordinator/core/user_limits.h"
#include "coordinator/session/agent_sink.h"
#include "muster/v1/agent.pb.h"
#include "muster/v1/job.pb.h"
#include "muster/v1/node.pb.h"

namespace muster {

// How much a note matters: see "Logs" in the conventions of the project.
enum class NoteLevel { kInfo, kWarn, kError };

struct CoordinatorOptions {
  // Agents of another cluster are refused. Empty in standalone use: agents must say nothing either.
  std::string cluster_id;
  // How often agents send heartbeats, while there are few of them.
  Duration heartbeat_interval = std::chrono::seconds(2);
  // Silence after which a node is LOST, while there are few of them. It is SUSPECT as soon as its
  // stream is gone, or after half of this time. A restarted coordinator waits this long for nodes.
  Duration lease_ttl = std::chrono::seconds(10);
  // How often heartbeats carry readings of the nodes' cards; 0: never.
  Duration telemetry_interval = std::chrono::seconds(10);
  // More nodes than this many heartbeats per second allow stretch interval and lease in proportion.
  double max_heartbeats_per_second = 500;
  // Answers of other nodes are awaited this long after the first PrepareFailed, so that the user
  // sees every reason at once.
  Duration prepare_failure_window = std::chrono::seconds(2);
  // A node that has not confirmed a stop this long after the grace ran out is given up as lost.
  Duration stop_confirmation_limit = std::chrono::seconds(60);
  // Before ranks on several nodes start, every node tries to reach the rendezvous. Of no use where
  // all agents are on one machine.
  bool probe_rendezvous = false;
  // A node that has not said, so much longer than a lease after all nodes were prepared, what it
  // reaches counts as reaching nothing. One whose agent is away is lost by then, or back.
  Duration probe_margin = std::chrono::seconds(5);
  // Jobs that ended are forgotten, the oldest first, when there are more than this many, or when
  // they have more ranks than this together. The newest one is always kept.
  size_t max_ended_jobs = 1000;
  size_t max_ended_ranks = 500'000;
  UserLimits user_limits;
  // Receives what an operator should know, one line of key=value pairs each. May be empty.
  std::function<void(NoteLevel, std::string_view)> note;
  // Hears, besides, that something is wrong with the identity of a node: its key is in use twice.
  // May be empty.
  std::function<void(const NodeId&, std::string_view)> alarm;
};

// Names one watch. Never used twice.
enum class WatchHandle : uint64_t { kNone = 0 };

// Hears that a watched job changed. Owned by the caller of WatchJob.
class JobWatcher {
 public:
  virtual ~JobWatcher() = default;
  // TakeUpdate has something. Called on the loop thread, never from inside WatchJob or TakeUpdate,
  // and not again before TakeUpdate was called. May call TakeUpdate and Unwatch.
  virtual void OnUpdateReady(WatchHandle watch) = 0;
};

// What a watcher gets.
struct JobUpdate {
  // First the whole job, later the job with only those `nodes` and `ranks` that changed since the
  // last TakeUpdate. Changes in between are merged: the newest state wins, nothing queues up.
  v1::Job job;
  // The job has ended and this is all: nothing follows, the watch is gone.
  bool last = false;
};

// How much output of one rank there will be.
struct RankLogState {
  // Size of the frame file at the source; known once the output is complete there.
  std::optional<uint64_t> final_size;
  // Nothing beyond what is stored now will arrive: the attempt is over there, and the rank never
  // wrote, or the node is lost or has forgotten the file. May turn false again when a lost node
  // comes back.
  bool abandoned = false;

  // True when a reader that has sent `stored_size` bytes, all there are, is at the end.
  bool EndsAt(uint64_t stored_size) const {
    return abandoned || (final_size.has_value() && stored_size >= *final_size);
  }
};

// Bytes of randomness for job and session ids. Called on the loop thread.
using RandomSource = std::function<uint64_t()>;

class CoordinatorCore {
 public:
  // `executor` and `store` outlive the core. Pending callbacks are dropped by the destructor.
  CoordinatorCore(CoordinatorOptions options, Executor& executor, Store& store,
                  RandomSource random);
  ~CoordinatorCore();
  CoordinatorCore(const CoordinatorCore&) = delete;
  CoordinatorCore& operator=(const CoordinatorCore&) = delete;

  // Loads the store and takes over what it finds: jobs go on, nodes have one lease to return.
  // Called once, before everything else. Fails when the store cannot be read, or holds what this
  // version cannot fold
  // (`DATA_LOSS`).
  absl::Status Start();
  // Raised at every Start. 0 before.
  uint64_t epoch() const;
  // How much there is at present, for a line of status.
  struct Totals {
    size_t nodes = 0;
    // In contact.
    size_t nodes_alive = 0;
    // That have not ended, and those of them that wait for nodes.
    size_t jobs = 0;
    size_t jobs_waiting = 0;
  };
  Totals totals() const;

  // --- Agents: one stream each, see proto/muster/v1/agent.proto ---

  // A stream was opened. `sink` stays valid until OnAgentDisconnected. The transport has
  // authenticated the peer; pass the node that its credentials name in `authenticated`, or nothing
  // when any will do.
  SessionHandle OnAgentConnected(AgentSink* sink,
                                 std::optional<NodeId> authenticated = std::nullopt);
  // The next message of a stream. Ignored when the core has closed it.
  void OnAgentMessage(SessionHandle session, v1::AgentMessage message);
  // The stream is over, whoever ended it. The core forgets the sink.
  void OnAgentDisconnected(SessionHandle session);
  // Whoever starts the agents says that the one of this node will not come, and why: jobs that wait
  // for it fail now. Forgotten when it comes after all.
  void GiveUpNode(const NodeId& node, std::string reason);
  // The node that `session_id` of a Welcome was given to, while that session is the node's newest.
  // For the log connection.
  std::optional<NodeId> NodeOfSession(const std::string& session_id) const;

  // --- Clients: see proto/muster/v1/job.proto and node.proto ---

  template <typename T>
  using Reply = std::function<void(absl::StatusOr<T>)>;

  // Jobs of others are not there for those who are no admins: not found, not listed.

  // True when there is such a job for this caller.
  bool MaySee(const JobId& job, const Caller& caller) const;
  // Answers once the job is stored. INVALID_ARGUMENT lists every problem of the spec.
  // RESOURCE_EXHAUSTED: it cannot be stored, or the caller has too much already (UserLimits; not
  // admins). Request ids are the caller's own.
  void SubmitJob(v1::SubmitJobRequest request, Caller caller, Reply<v1::Job> done);
  // Answers with a plan on the nodes that are there; hosts without a node are planned as written.
  void PlanJob(v1::PlanJobRequest request, Caller caller, Reply<v1::Plan> done);
  // RESOURCE_EXHAUSTED while what became of the job cannot be stored: a crash would take it back.
  // The same for a page of jobs with such a one.
  void GetJob(v1::GetJobRequest request, Caller caller, Reply<v1::Job> done);
  void ListJobs(v1::ListJobsRequest request, Caller caller, Reply<v1::ListJobsResponse> done);
  // Answers once the request is stored; the job may still be STOPPING.
  void CancelJob(v1::CancelJobRequest request, Caller caller, Reply<v1::Job> done);
  void SignalJob(v1::SignalJobRequest request, Caller caller, Reply<v1::SignalJobResponse> done);
  void ListNodes(v1::ListNodesRequest request, Caller caller, Reply<v1::ListNodesResponse> done);

  // Begins a watch; OnUpdateReady follows soon. NOT_FOUND when there is no such job.
  absl::StatusOr<WatchHandle> WatchJob(const JobId& job, const Caller& caller, JobWatcher* watcher);
  // What changed since the last call; nothing when nothing did, or when the watch is gone.
  std::optional<JobUpdate> TakeUpdate(WatchHandle watch);
  // Ends a watch. The watcher is not called again. Unknown watches are ignored.
  void Unwatch(WatchHandle watch);

  // Has nodes checked, see proto/muster/v1/node.proto. `listener` stays valid until it heard
  // OnChecked or CancelCheck; it is not called from inside. INVALID_ARGUMENT lists every problem;
  // FAILED_PRECONDITION: the hosts fit no nodes, or too many checks run.
  absl::StatusOr<CheckHandle> CheckNodes(v1::CheckNodesRequest request, const Caller& caller,
                                         CheckListener* listener);
  void CancelCheck(CheckHandle check);

  // --- Logs: the log store holds the bytes, the core knows how many there will be ---

  // `size` bytes of a rank's frame file are stored. Also to be called for every file that an agent
  // names on its log connection, changed or not, so that a restarted core knows. A node is released
  // when all of its files are stored completely.
  void OnLogCommitted(const AttemptId& attempt, Rank rank, uint64_t size);
  // True when the node may upload files of this attempt and rank: it runs there by plan.
  bool MayUpload(const NodeId& node, const AttemptId& attempt, Rank rank) const;
  // Number of the newest attempt and of ranks of a job; 0 attempts while it waits. Nothing when
  // there is no such job.
  struct JobShape {
    uint32_t attempts = 0;
    // Ranks of the newest attempt.
    uint32_t ranks = 0;
  };
  std::optional<JobShape> ShapeOf(const JobId& job) const;
  // Nothing when there is no such attempt or rank.
  std::optional<RankLogState> LogState(const AttemptId& attempt, Rank rank) const;
  // Size that a rank's file has at the source, once known.
  std::optional<uint64_t> ExpectedLogSize(const AttemptId& attempt, Rank rank) const;
  // True when for all of `ranks` (empty: all ranks) everything that will ever arrive is stored.
  bool LogsComplete(const AttemptId& attempt, const std::vector<Rank>& ranks) const;
  // True when the job has ended and no further attempt follows.
  bool HasEnded(const JobId& job) const;
  // `listener` is told when LogState, HasEnded or ShapeOf of a job may have changed. One listener.
  void SetLogListener(std::function<void(const JobId&)> listener);
  // `listener` is told when a job was forgotten, so that its files can be deleted. One listener.
  void SetForgetListener(std::function<void(const JobId&)> listener);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
