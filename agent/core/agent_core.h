// The agent without its transports: takes what the coordinator wants (assignments), brings the
// shims of the node to it, and turns what shims recorded into events that are told until
// acknowledged. Lives on the loop thread of its executor; every method is called there. It owns all
// mutable state of the agent, never blocks except in AgentStore, and never touches a process, a
// file or a socket.
//
// Life: construct -> Start() (reads the journal, adopts shims) -> any number of
//   OnConnected(sink), OnMessage(...)..., OnDisconnected(status)
// Sequence on a connection: Hello -> Welcome (epoch checked) -> events behind the acked one, and
// heartbeats -> snapshot, assignments, acks, signals.
//
// Rules:
// * Journal first: nothing is launched, run or told that the journal does not hold. When the
//   journal cannot be written, ranks are still stopped when asked, nothing new is started, events
//   wait; it is tried again every second.
// * An assignment counts only if its generation is newer than the one held. An attempt that is held
//   and missing from a snapshot is stopped and forgotten. RELEASED forgets, once nothing runs.
// * An attempt is run only if this very journal saw it prepared, so ranks never start twice.
// * Nothing is launched before the UserGate has said what the ranks run as, nor on rank 0's node
//   before the address that the job asks for is known to be one of the node, nor before the
//   NodeInspector has found nothing in the way.
// * The probe of an assignment is answered once in every life of the agent, as long as the
//   assignment is the newest; an answer that comes twice does no harm.
// * A shim that died without its last record: everything it started is killed, ranks without an
// exit
//   record are lost, and the attempt is stopped. No status is ever invented.
// * Processes that cannot be killed are named in AttemptStopped. Once they are gone after all it is
//   told again, with none; until then the attempt is not forgotten.
// * A coordinator counts as fresh since the moment when the newest acknowledged heartbeat was sent;
//   shims with a stop-after are renewed for the rest of that time only, so that a node cut off in
//   either direction stops in time.
#pragma once

#include <absl/status/status.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/core/agent_state.h"
#include "agent/core/agent_store.h"
#include "agent/core/check_responder.h"
#include "agent/core/container.h"
#include "agent/core/deed.h"
#include "agent/core/launcher.h"
#include "agent/core/node_inspector.h"
#include "agent/core/reconciler.h"
#include "agent/core/rendezvous_network.h"
#include "agent/core/user_gate.h"
#include "agent/session/coordinator_session.h"
#include "common/base/executor.h"
#include "common/base/ids.h"
#include "muster/v1/agent.pb.h"

namespace muster {

// See AgentOptions::ephemeral_after.
inline constexpr std::chrono::seconds kEphemeralStopAfter{60};

struct AgentOptions {
  NodeId node_id;
  // Empty in standalone use.
  std::string cluster_id;
  // Different for every start of the agent.
  std::string agent_instance_id;
  // /proc/sys/kernel/random/boot_id.
  std::string boot_id;
  std::vector<std::string> capabilities;
  v1::NodeFacts facts;
  // The agent's own environment, `NAME=value`, and the home directory of its user.
  std::vector<std::string> environ;
  std::string home;
  // Test hook, passed to every shim.
  std::optional<uint32_t> fake_unkillable_rank;
  // When set, AgentObserver::OnAbandoned is called once no coordinator was heard for this long and
  // no attempt has anything left that runs. Ranks of a job that says nothing of the loss of the
  // coordinator are stopped kEphemeralStopAfter after it, also when this agent was killed.
  std::optional<Duration> ephemeral_after;
  // What of containers tells those of this agent from others' on the machine, and what the agent
  // runs as. `look_for_engines` is asked before every launch of ranks in containers for the engines
  // of the node, and which of them do not work for the user; it calls `done` once, at once or later
  // on the loop thread. Null: the node has no container engine.
  std::string state;
  uint32_t uid = 0;
  uint32_t gid = 0;
  std::function<void(const v1::LaunchSpec& launch, const RunAs& user,
                     std::function<void(ContainerHost)> done)>
      look_for_engines;
  // Reads what the profile of the Habana software sets, before every launch on a node with cards;
  // one small local file. Null: there is none.
  std::function<std::vector<v1::EnvAssignment>()> read_profile;
  // Looks at the node before every launch. Null: nothing is looked at. Outlives the core.
  NodeInspector* inspector = nullptr;
  // Measures the network when somebody asks. Null: it is not measured. Outlives the core.
  NetworkTester* network = nullptr;
  // The journal is rewritten when it is larger than this and four times what it has to be.
  uint64_t compact_bytes = 256 * 1024;
  // For heartbeats: output not yet committed (LogShipper::pending_bytes). May be null.
  std::function<uint64_t()> pending_log_bytes;
  // Told how often the coordinator wants readings of the cards; 0: never. May be null.
  std::function<void(Duration)> set_telemetry_interval;
  // For heartbeats: readings that were not told yet; must not block. May be null.
  std::function<std::vector<v1::DeviceReading>()> take_readings;
};

// Hears what the composition root passes on (log connection, log shipper, exit). Called on the loop
// thread, possibly from inside AgentCore's methods; must not call AgentCore back except by Post.
class AgentObserver {
 public:
  enum class Severity { kInfo, kWarning, kError };

  virtual ~AgentObserver() = default;
  // A line for the agent's log, `text key=value...`.
  virtual void OnNotice(Severity severity, const std::string& line) = 0;
  // A session was accepted: the log connection may be opened with this id.
  virtual void OnSession(const std::string& session_id) = 0;
  // The session ended: the log connection is of no use any more.
  virtual void OnSessionLost() = 0;
  // Ranks of this attempt may write output. -> LogShipper::AddFiles
  virtual void OnAttempt(const AttemptId& id, const std::vector<uint32_t>& ranks) = 0;
  // A rank's output is complete. -> LogShipper::OnClosed
  virtual void OnLogClosed(const AttemptId& id, uint32_t rank, uint64_t size) = 0;
  // The attempt is forgotten. -> LogShipper::RemoveAttempt
  virtual void OnForgotten(const AttemptId& id) = 0;
  // Something is done by the coordinator's order: before it is.
  virtual void OnDeed(const Deed& deed) = 0;
  // See AgentOptions::ephemeral_after. Called once: the agent should exit.
  virtual void OnAbandoned() = 0;
};

class AgentCore final : private Launcher::Observer, private CoordinatorSession::Owner {
 public:
  // References outlive the core.
  AgentCore(Executor& executor, AgentStore& store, Launcher& launcher, UserGate& users,
            RendezvousNetwork& network, AgentObserver& observer, AgentOptions options);
  ~AgentCore() override;
  AgentCore(const AgentCore&) = delete;
  AgentCore& operator=(const AgentCore&) = delete;

  // Reads the journal and adopts what it knows; attempts on disk that it does not know are swept
  // and deleted. Fails when no journal can be opened or created. Once, first.
  absl::Status Start();

  // A stream to the coordinator is open. `sink` stays valid until OnDisconnected returned or the
  // core called Close. A sink that was there before is forgotten: its stream's messages must not be
  // passed in any more. The transport dials for ever, with backoff (agent/session/backoff.h).
  void OnConnected(AgentSessionSink* sink);
  // A message of the stream of the newest sink.
  void OnMessage(const v1::CoordinatorMessage& message);
  // The stream of the newest sink ended. Not needed after the core called Close, but harmless.
  void OnDisconnected(const absl::Status& status);

  // Replaces what Hello says about the node, from the next connection on.
  void SetFacts(v1::NodeFacts facts);

  // For tests and diagnosis.
  const AgentState& state() const { return state_; }
  // True while the journal cannot be written.
  bool degraded() const { return !journal_ok_; }

 private:
  // What is known of an attempt's shim in this life of the agent.
  struct Live {
    ShimState shim = ShimState::kNone;
    bool run_told = false;
    std::optional<std::chrono::milliseconds> stop_told;
    bool quit_told = false;
    bool overdue_told = false;
    uint32_t launches = 0;
    // What was found before the launch, until it is told with Prepared.
    Inspection inspection;
    // Generation of the newest assignment whose probe was begun; 0: none.
    uint64_t probe_generation = 0;
  };

  // Launcher::Observer
  void OnRecord(const AttemptId& id, const internal::ShimRecord& record) override;
  void OnGone(const AttemptId& id, const std::string& reason) override;
  // CoordinatorSession::Owner
  v1::Hello MakeHello() override;
  v1::Heartbeat MakeHeartbeat() override;
  absl::Status OnWelcome(const v1::Welcome& welcome) override;
  absl::Status OnBody(const v1::CoordinatorMessage& message) override;
  void OnFresh() override;
  void OnSessionEnded(const absl::Status& status) override;

  void OnSnapshot(const v1::AssignmentSnapshot& snapshot);
  void OnAssignment(const v1::Assignment& assignment);
  absl::Status OnAck(uint64_t acked_seq);
  void OnSignal(const v1::SignalRanks& signal);
  void SweepDead(const AttemptId& id, const std::string& reason);
  void SweepRemains(const AttemptId& id);
  void SweepRemainsLater(const AttemptId& id);
  void SweepUnknown(const AttemptId& id);

  void Journal(const internal::JournalRecord& record);
  void JournalAssignment(const v1::Assignment& assignment);
  void JournalFactsOf(internal::JournalFacts facts);
  bool RewriteJournal();
  void Announce(const AttemptId& id);
  void ScheduleReconcile();
  void ReconcileAll();
  void Perform(const Action& action);
  // agent_core_launch.cc
  void Launch(const AttemptId& id);
  // How long ranks go on without a coordinator; nothing: for ever.
  std::optional<std::chrono::milliseconds> StopAfter(const v1::LaunchSpec& launch) const;
  // True when the launch of `id`, which waited for an answer, is still to be made; otherwise
  // everything is seen to.
  bool GoesOn(const AttemptId& id);
  // The steps of a launch, in this order.
  void ComposeAs(const AttemptId& id, const RunAs& user, ComposeContext context);
  void InspectAs(const AttemptId& id, const RunAs& user, internal::ShimBootstrap bootstrap);
  void LaunchAs(const AttemptId& id, const RunAs& user, internal::ShimBootstrap bootstrap,
                Inspection inspection);
  void RefuseLaunch(const AttemptId& id, const std::vector<v1::Problem>& problems);
  void RefuseLaunch(const AttemptId& id, const std::string& check, const std::string& reason);
  void TellDeed(Deed::Kind kind, const AttemptId& id, std::string user, std::string detail);
  // agent_core_probe.cc
  // Where ranks could meet on this node, the preferred first; none where the job names an address.
  std::vector<std::string> ProposedAddresses(const internal::JournalAttempt& attempt);
  void StartProbes();
  void OnProbed(const AttemptId& id, uint64_t generation, std::vector<v1::ProbedAddress> answers);
  void Forget(const AttemptId& id);
  void ScheduleFlush();
  void FlushEvents();
  void Tick();
  void RenewLeases();
  void CheckOverdue();
  void CheckAbandoned();
  void ArmTick();
  // What composing needs besides attempt and user.
  // Calls `done` at once unless container engines are to be asked first.
  void WithContext(const v1::LaunchSpec& launch, const RunAs& user,
                   std::function<void(ComposeContext)> done) const;
  // Posts a member function, unless the core is gone by then.
  void PostSelf(void (AgentCore::*method)());
  void Notice(AgentObserver::Severity severity, const std::string& line);

  Executor& executor_;
  AgentStore& store_;
  Launcher& launcher_;
  UserGate& users_;
  RendezvousNetwork& network_;
  AgentObserver& observer_;
  AgentOptions options_;
  AgentState state_;
  std::map<AttemptId, Live> live_;
  CoordinatorSession session_;
  CheckResponder checks_;
  bool journal_ok_ = false;
  // Events up to this one are in the journal and may be told.
  uint64_t durable_seq_ = 0;
  // Events up to this one were sent on the current connection.
  uint64_t sent_seq_ = 0;
  uint64_t compact_at_bytes_ = 0;
  bool reconcile_posted_ = false;
  bool flush_posted_ = false;
  // The snapshot of the current session was applied: only then anything new is started.
  bool synced_ = false;
  bool abandoned_ = false;
  TimePoint started_at_;
  Executor::TimerId tick_timer_ = 0;
  // Posted tasks look here whether the core still lives.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace muster
