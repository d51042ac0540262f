// The inside of CoordinatorCore: the turn (core_impl.cc), agents (core_agents.cc), clients
// (core_clients.cc) and logs (core_logs.cc). Internal to coordinator/core. Lives on the loop
// thread.
//
// Inputs are tasks in an inbox. A turn runs them all, lets the policy add its decisions, stores
// what was recorded, and only then publishes. While a batch is being stored no turn begins, so what
// a job holds is what is stored plus that one batch.
#pragma once

#include <absl/container/flat_hash_set.h>
#include <absl/status/status.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coordinator/core/check_desk.h"
#include "coordinator/core/coordinator_core.h"
#include "coordinator/core/job_index.h"
#include "coordinator/core/job_view.h"
#include "coordinator/core/node_table.h"
#include "coordinator/core/store.h"
#include "coordinator/core/watch_hub.h"
#include "coordinator/session/session_hub.h"

namespace muster {

class CoordinatorCore::Impl {
 public:
  using Task = std::function<void()>;

  Impl(CoordinatorOptions options, Executor& executor, Store& store, RandomSource random);
  ~Impl();

  absl::Status Start();

  // --- core_agents.cc ---
  SessionHandle OnAgentConnected(AgentSink* sink, std::optional<NodeId> authenticated);
  void OnAgentMessage(SessionHandle handle, v1::AgentMessage message);
  void OnAgentDisconnected(SessionHandle handle);
  void GiveUpNode(const NodeId& node, std::string reason);

  // --- core_clients.cc ---
  bool MaySee(const JobId& job, const Caller& caller) const;
  void SubmitJob(v1::SubmitJobRequest request, Caller caller, Reply<v1::Job> done);
  void PlanJob(v1::PlanJobRequest request, Caller caller, Reply<v1::Plan> done);
  void GetJob(v1::GetJobRequest request, Caller caller, Reply<v1::Job> done);
  void ListJobs(v1::ListJobsRequest request, Caller caller, Reply<v1::ListJobsResponse> done);
  void CancelJob(v1::CancelJobRequest request, Caller caller, Reply<v1::Job> done);
  void SignalJob(v1::SignalJobRequest request, Caller caller, Reply<v1::SignalJobResponse> done);
  void ListNodes(v1::ListNodesRequest request, Caller caller, Reply<v1::ListNodesResponse> done);
  absl::StatusOr<WatchHandle> WatchJob(const JobId& job, const Caller& caller, JobWatcher* watcher);
  // core_checks.cc
  absl::StatusOr<CheckHandle> CheckNodes(v1::CheckNodesRequest request, const Caller& caller,
                                         CheckListener* listener);
  void CancelCheck(CheckHandle check) { checks_.Cancel(check); }
  std::optional<JobUpdate> TakeUpdate(WatchHandle watch) { return watches_.Take(watch); }
  void Unwatch(WatchHandle watch) { watches_.Remove(watch); }

  // --- core_logs.cc ---
  void OnLogCommitted(const AttemptId& attempt, Rank rank, uint64_t size);
  bool MayUpload(const NodeId& node, const AttemptId& attempt, Rank rank) const;
  std::optional<JobShape> ShapeOf(const JobId& job) const;
  std::optional<RankLogState> LogState(const AttemptId& attempt, Rank rank) const;
  bool LogsComplete(const AttemptId& attempt, const std::vector<Rank>& ranks) const;
  bool HasEnded(const JobId& job) const;

  uint64_t epoch() const { return epoch_; }
  Totals totals() const {
    return {.nodes = nodes_.nodes().size(),
            .nodes_alive = nodes_.alive_count(),
            .jobs = jobs_.by_sequence().size() - jobs_.ended().size(),
            .jobs_waiting = jobs_.waiting().size()};
  }
  std::optional<NodeId> NodeOfSession(const std::string& session_id) const {
    return sessions_.NodeOf(session_id);
  }
  void SetLogListener(std::function<void(const JobId&)> f) { log_listener_ = std::move(f); }
  void SetForgetListener(std::function<void(const JobId&)> f) { forget_listener_ = std::move(f); }

 private:
  // What is to be done once the batch of this turn is stored.
  struct Afterwards {
    Task task;
    // Also when storing failed for now: answers that need not wait for it.
    bool even_if_failed = false;
  };

  // --- The turn, core_impl.cc ---
  // Runs `task` in the next turn.
  void Enqueue(Task task);
  // Runs `answer` when everything that is known now is stored; soon, if storing fails at present.
  void Answer(Task answer);
  void ScheduleTurn();
  void Turn();
  void DecideAll();
  void DecideFor(JobEntry& entry);
  void Place(JobEntry& entry, Placement& placement);
  void AppendBatch();
  void OnAppended(const absl::Status& status);
  void OnAppendFailed(const absl::Status& status);
  void RetractSubmissions();
  void Publish();
  void PublishJob(JobEntry& entry);
  void ForgetOldJobs();
  void ArmWakeTimer();

  // Folds an event into a job, stamps it and adds it to the batch of this turn.
  void Record(JobEntry& entry, internal::JobEvent event);
  // The policy looks at the job in this turn, and watchers after it.
  void Touch(JobEntry& entry);
  void Note(NoteLevel level, std::string_view line) const;
  void NoteState(const JobEntry& entry) const;
  // Posts a task that is dropped when the core is gone.
  void Post(Task task);
  Executor::TimerId PostAfter(Duration delay, Task task);
  JobId NewJobId();
  std::string NewSessionId();

  // --- Agents, core_agents.cc ---
  void OnHello(SessionHandle handle, const v1::Hello& hello);
  // False when the greeting is not from the machine that the node is; then it was answered.
  bool IsWhoItSays(AgentSession& session, const v1::Hello& hello);
  // Tells a copy of a node to stop what it has, and to go away.
  void Fence(AgentSession& session, const NodeEntry& node, const v1::Hello& hello);
  void Heard(NodeEntry& node);
  void Alarm(NodeEntry& node, std::string text);
  void OnEvents(SessionHandle handle, const v1::EventBatch& events);
  void OnEvent(const NodeEntry& node, const v1::Event& event);
  void OnGone(SessionHandle handle);
  void Welcome(SessionHandle handle);
  v1::AssignmentSnapshot SnapshotFor(AgentSession& session);
  // Sends what the nodes of the job's attempts do not have yet.
  void PublishAssignments(JobEntry& entry);
  // Tells a node to forget an attempt when nothing of it is needed any more.
  void TryRelease(JobEntry& entry, const AttemptRecord& attempt, uint32_t node_index);
  // The job is about to be forgotten: its nodes are told to forget it, too, whatever they have of
  // it.
  void ReleaseForgotten(const JobEntry& entry);
  // Adds to an assignment what the node is to launch. False when it cannot be said.
  bool AddLaunch(JobEntry& entry, const AttemptRecord& attempt, uint32_t node_index,
                 v1::Assignment& assignment);
  // Who can probe the rendezvous of a job that may. Nothing where that is not needed, or not known:
  // a node has not greeted this coordinator yet.
  std::optional<ProbeView> ProbeViewOf(const JobRecord& job) const;
  // Records which attempts have lost this node, for its state and identity as they are now.
  void CheckAttempts(const NodeEntry& node);
  void LoseNode(const AttemptNodeRef& ref, std::string reason, bool fenced);
  // Contact with a node changed: jobs that wait or have something there are looked at.
  void OnContactChanged(const NodeId& node);
  void Tick();

  // --- Clients, core_clients.cc ---
  // The job, if it is there for this caller.
  JobEntry* FindFor(const Caller& caller, const std::string& job);
  // A job as clients see it; RESOURCE_EXHAUSTED while it shows something that cannot be stored.
  absl::StatusOr<v1::Job> View(const JobEntry& entry) const;
  absl::Status CannotStore() const;
  // False when the agent of the node is not in contact.
  bool SendCheck(const NodeId& node, v1::RunCheck check);

  // --- Logs, core_logs.cc ---
  bool NodeLogsStored(const JobEntry& entry, const AttemptRecord& attempt,
                      uint32_t node_index) const;
  RankLogState LogStateOf(const AttemptRecord& attempt, uint32_t rank) const;

  const CoordinatorOptions options_;
  Executor& executor_;
  Store& store_;
  RandomSource random_;
  PolicyLimits limits_;

  uint64_t epoch_ = 0;
  NodeTable nodes_;
  // Why nodes will not come; see GiveUpNode.
  std::map<NodeId, std::string> given_up_;
  JobIndex jobs_;
  SessionHub sessions_;
  WatchHub watches_;
  CheckDesk checks_;

  std::deque<Task> inbox_;
  bool turn_posted_ = false;
  std::vector<JobEntry*> touched_;
  std::vector<Afterwards> afterwards_;
  // Of this turn.
  StoreBatch batch_;
  std::set<NodeId> dirty_nodes_;
  absl::flat_hash_set<NodeId> ack_nodes_;
  std::vector<JobId> submitted_;
  std::vector<JobId> forgotten_;
  // The batch being stored.
  StoreBatch storing_;
  bool append_in_flight_ = false;
  absl::Status store_failure_;
  uint32_t store_failures_ = 0;

  uint64_t placed_version_ = 0;
  Executor::TimerId wake_timer_ = 0;
  std::optional<TimePoint> wake_at_;
  std::function<void(const JobId&)> log_listener_;
  std::function<void(const JobId&)> forget_listener_;
  // Posted tasks look here whether the core still lives.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace muster
