#include "agent/core/agent_core.h"

#include <fmt/format.h>
#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "agent/core/assignments.h"
#include "agent/core/compose.h"
#include "agent/core/describe.h"
#include "agent/core/shim_events.h"
#include "common/base/annotate.h"
#include "common/base/signal_names.h"

namespace muster {
namespace {

using internal::JournalAttempt;
using internal::JournalFacts;
using internal::JournalRecord;
using std::chrono::milliseconds;
using Severity = AgentObserver::Severity;

constexpr milliseconds kOverdue{15'000};
constexpr Duration kTick = std::chrono::seconds(1);
// How often processes that could not be killed are looked at again.
constexpr Duration kSweepAgain = std::chrono::seconds(10);
constexpr char kUnknownHere[] =
    "the node holds no state of this attempt any more, so nobody can tell what became of the rank";

}  // namespace

AgentCore::AgentCore(Executor& executor, AgentStore& store, Launcher& launcher, UserGate& users,
                     RendezvousNetwork& network, AgentObserver& observer, AgentOptions options)
    : executor_(executor),
      store_(store),
      launcher_(launcher),
      users_(users),
      network_(network),
      observer_(observer),
      options_(std::move(options)),
      session_(executor, *this),
      checks_(
          executor, users, options_.inspector, options_.network,
          [this](const v1::LaunchSpec& launch, const RunAs& user,
                 std::function<void(ComposeContext)> done) {
            WithContext(launch, user, std::move(done));
          },
          [this] { return options_.facts.addresses(); },
          [this](v1::CheckReport report) { session_.SendReport(std::move(report)); },
          [this](const Deed& deed) { observer_.OnDeed(deed); }) {}

AgentCore::~AgentCore() {
  executor_.Cancel(tick_timer_);
  launcher_.SetObserver(nullptr);
}

absl::Status AgentCore::Start() {
  absl::StatusOr<OpenedJournal> opened = store_.Open(options_.boot_id);
  if (!opened.ok()) return Annotate(opened.status(), "cannot open the journal");
  if (!opened->note.empty()) Notice(Severity::kWarning, opened->note);
  state_ = std::move(opened->state);
  journal_ok_ = true;
  durable_seq_ = state_.last_seq();
  compact_at_bytes_ = std::max(options_.compact_bytes, 4 * store_.size_bytes());
  started_at_ = executor_.clock().Now();
  launcher_.SetObserver(this);
  for (const auto& [id, attempt] : state_.attempts) {
    // Also attempts that are stopped: their shim may still wait to be told to exit.
    live_[id].shim = ShimState::kFollowed;
    launcher_.Adopt(id, attempt.shim_index() + 1);
    Announce(id);
  }
  for (const AttemptId& id : launcher_.ListAttempts()) {
    if (!state_.attempts.contains(id)) SweepUnknown(id);
  }
  ScheduleReconcile();
  ArmTick();
  return absl::OkStatus();
}

void AgentCore::OnConnected(AgentSessionSink* sink) { session_.OnConnected(sink); }

void AgentCore::OnMessage(const v1::CoordinatorMessage& message) { session_.OnMessage(message); }

void AgentCore::OnDisconnected(const absl::Status& status) { session_.OnDisconnected(status); }

void AgentCore::SetFacts(v1::NodeFacts facts) { options_.facts = std::move(facts); }

// --- What the coordinator says ---

v1::Hello AgentCore::MakeHello() {
  v1::Hello hello;
  hello.set_cluster_id(options_.cluster_id);
  hello.set_node_id(options_.node_id.value());
  hello.set_agent_instance_id(options_.agent_instance_id);
  hello.set_boot_id(options_.boot_id);
  hello.set_journal_id(state_.journal_id);
  if (!state_.events.empty()) hello.set_oldest_event_seq(state_.events.front().seq());
  for (const std::string& capability : options_.capabilities) hello.add_capabilities(capability);
  *hello.mutable_facts() = options_.facts;
  for (const auto& [id, attempt] : state_.attempts) {
    v1::AttemptReport& report = *hello.add_attempts();
    *report.mutable_key() = KeyOf(id);
    report.set_generation(attempt.assignment().generation());
    report.set_running_ranks(RunningRanks(attempt));
    report.set_stopped(attempt.stopped());
  }
  return hello;
}

v1::Heartbeat AgentCore::MakeHeartbeat() {
  v1::Heartbeat heartbeat;
  uint32_t running = 0;
  for (const auto& [id, attempt] : state_.attempts) running += RunningRanks(attempt);
  heartbeat.set_running_ranks(running);
  if (options_.pending_log_bytes) heartbeat.set_pending_log_bytes(options_.pending_log_bytes());
  if (options_.take_readings) {
    const std::vector<v1::DeviceReading> readings = options_.take_readings();
    heartbeat.mutable_readings()->Assign(readings.begin(), readings.end());
  }
  return heartbeat;
}

absl::Status AgentCore::OnWelcome(const v1::Welcome& welcome) {
  if (welcome.coordinator_epoch() < state_.epoch) {
    return absl::FailedPreconditionError(fmt::format(
        "the coordinator has epoch {}, but epoch {} was seen before (an older coordinator is still "
        "running, or its state was restored from a backup)",
        welcome.coordinator_epoch(), state_.epoch));
  }
  const uint64_t acked = welcome.acked_event_seq();
  if (acked < state_.acked_seq || acked > durable_seq_) {
    return absl::FailedPreconditionError(fmt::format(
        "the coordinator has events up to {}, but this node holds {} to {} of journal {}", acked,
        state_.acked_seq + 1, durable_seq_, state_.journal_id));
  }
  if (welcome.coordinator_epoch() > state_.epoch) {
    JournalRecord record;
    record.set_epoch(welcome.coordinator_epoch());
    Journal(record);
  }
  sent_seq_ = acked;
  const absl::Status status = OnAck(acked);
  if (!status.ok()) return status;
  if (options_.set_telemetry_interval) {
    options_.set_telemetry_interval(std::chrono::nanoseconds(
        google::protobuf::util::TimeUtil::DurationToNanoseconds(welcome.telemetry_interval())));
  }
  Notice(Severity::kInfo, fmt::format("session opened session={} epoch={} acked={}",
                                      welcome.session_id(), welcome.coordinator_epoch(), acked));
  observer_.OnSession(welcome.session_id());
  ScheduleFlush();
  return absl::OkStatus();
}

absl::Status AgentCore::OnBody(const v1::CoordinatorMessage& message) {
  switch (message.body_case()) {
    case v1::CoordinatorMessage::kSnapshot:
      OnSnapshot(message.snapshot());
      break;
    case v1::CoordinatorMessage::kAssignment:
      OnAssignment(message.assignment());
      break;
    case v1::CoordinatorMessage::kEventAck:
      return OnAck(message.event_ack().acked_seq());
    case v1::CoordinatorMessage::kSignal:
      OnSignal(message.signal());
      break;
    case v1::CoordinatorMessage::kRunCheck:
      checks_.OnRunCheck(message.run_check());
      break;
    default:
      break;
  }
  return absl::OkStatus();
}

void AgentCore::OnFresh() { RenewLeases(); }

void AgentCore::OnSessionEnded(const absl::Status& status) {
  synced_ = false;
  Notice(Severity::kInfo, fmt::format("session ended status=\"{}\"", status.ToString()));
  observer_.OnSessionLost();
}

void AgentCore::OnSnapshot(const v1::AssignmentSnapshot& snapshot) {
  std::vector<AttemptId> absent;
  for (const auto& [id, attempt] : state_.attempts) absent.push_back(id);
  for (const v1::Assignment& assignment : snapshot.assignments()) {
    std::erase(absent, IdOf(assignment.key()));
    OnAssignment(assignment);
  }
  for (const AttemptId& id : absent) {
    v1::Assignment assignment = state_.attempts.at(id).assignment();
    if (assignment.desired() == v1::Assignment::RELEASED) continue;
    Notice(Severity::kWarning,
           fmt::format("attempt unknown to the coordinator, stopping it {}", Describe(id)));
    assignment.set_desired(v1::Assignment::RELEASED);
    JournalAssignment(assignment);
  }
  synced_ = true;
  ScheduleReconcile();
}

void AgentCore::OnAssignment(const v1::Assignment& assignment) {
  const auto held = state_.attempts.find(IdOf(assignment.key()));
  const absl::StatusOr<std::optional<v1::Assignment>> merged =
      MergeAssignment(held == state_.attempts.end() ? nullptr : &held->second, assignment);
  if (!merged.ok()) {
    Notice(Severity::kError,
           fmt::format("assignment ignored {} reason=\"{}\"", Describe(IdOf(assignment.key())),
                       MessageOf(merged.status())));
    return;
  }
  if (merged->has_value()) JournalAssignment(**merged);
}

absl::Status AgentCore::OnAck(uint64_t acked_seq) {
  if (acked_seq > sent_seq_) {
    return absl::FailedPreconditionError(
        fmt::format("the coordinator acknowledged event {}, but only events up to {} were sent",
                    acked_seq, sent_seq_));
  }
  if (acked_seq <= state_.acked_seq) return absl::OkStatus();
  JournalRecord record;
  record.set_acked_seq(acked_seq);
  Journal(record);
  ScheduleFlush();
  return absl::OkStatus();
}

void AgentCore::OnSignal(const v1::SignalRanks& signal) {
  const AttemptId id = IdOf(signal.key());
  const auto live = live_.find(id);
  if (!state_.attempts.contains(id) || live == live_.end()) return;
  if (live->second.shim != ShimState::kFollowed) return;
  const std::vector<uint32_t> ranks(signal.ranks().begin(), signal.ranks().end());
  observer_.OnDeed({.kind = Deed::Kind::kSignal,
                    .attempt = id,
                    .submitter = state_.attempts.at(id).assignment().launch().submitter(),
                    .ranks = ranks,
                    .detail = SignalName(signal.signal())});
  launcher_.Signal(id, signal.signal(), ranks);
}

// --- What shims say ---

void AgentCore::OnRecord(const AttemptId& id, const internal::ShimRecord& record) {
  const auto found = state_.attempts.find(id);
  if (found == state_.attempts.end()) return;
  const JournalAttempt& attempt = found->second;
  // Told already, or nothing that matters after the end.
  if (record.index() <= attempt.shim_index() || attempt.stopped()) return;
  if (record.index() != attempt.shim_index() + 1) {
    // Ranks whose records are missing end as lost, never with a status that nobody recorded.
    Notice(Severity::kError,
           fmt::format("records of the shim are missing {} from={} to={}", Describe(id),
                       attempt.shim_index() + 1, record.index() - 1));
  }
  std::vector<std::string> addresses;
  if (record.has_prepared()) addresses = ProposedAddresses(attempt);
  JournalFactsOf(FactsOf(attempt, record, addresses, live_[id].inspection));
}

void AgentCore::OnGone(const AttemptId& id, const std::string& reason) {
  const auto found = state_.attempts.find(id);
  if (found == state_.attempts.end()) return;
  if (found->second.remains()) return SweepRemains(id);
  if (found->second.stopped()) {
    live_[id].shim = ShimState::kGone;
    ScheduleReconcile();
    return;
  }
  SweepDead(id, reason);
}

void AgentCore::SweepRemains(const AttemptId& id) {
  const auto found = state_.attempts.find(id);
  if (found == state_.attempts.end() || !found->second.remains()) return;
  live_[id].shim = ShimState::kSweeping;
  launcher_.Sweep(
      id, [this, id, alive = std::weak_ptr<int>(alive_)](const Launcher::SweepResult& result) {
        if (alive.expired()) return;
        const auto swept = state_.attempts.find(id);
        if (swept == state_.attempts.end()) return;
        live_[id].shim = ShimState::kGone;
        if (result.unkillable.empty()) {
          // Told once more, now with nothing left.
          JournalFactsOf(FactsOfNothing(swept->second, "", executor_.clock().WallNow()));
          return;
        }
        ScheduleReconcile();
        SweepRemainsLater(id);
      });
}

void AgentCore::SweepDead(const AttemptId& id, const std::string& reason) {
  live_[id].shim = ShimState::kSweeping;
  launcher_.Sweep(id, [this, id, reason,
                       alive = std::weak_ptr<int>(alive_)](const Launcher::SweepResult& result) {
    if (alive.expired()) return;
    const auto found = state_.attempts.find(id);
    if (found == state_.attempts.end()) return;
    Live& live = live_[id];
    if (found->second.shim_index() == 0 && live.launches == 0) {
      // An earlier agent died before it could start a shim.
      live.shim = ShimState::kNone;
      ScheduleReconcile();
      return;
    }
    live.shim = ShimState::kGone;
    if (!result.unkillable.empty()) SweepRemainsLater(id);
    Notice(Severity::kError, fmt::format("shim gone {} reason=\"{}\" killed={}", Describe(id),
                                         reason, result.killed));
    JournalFactsOf(FactsOfDeath(found->second, reason, result, executor_.clock().WallNow()));
  });
}

void AgentCore::SweepRemainsLater(const AttemptId& id) {
  executor_.PostAfter(kSweepAgain, [this, id, alive = std::weak_ptr<int>(alive_)] {
    if (!alive.expired()) SweepRemains(id);
  });
}

void AgentCore::SweepUnknown(const AttemptId& id) {
  Notice(Severity::kWarning,
         fmt::format("attempt without a journal found, removing it {}", Describe(id)));
  live_[id].shim = ShimState::kSweeping;
  launcher_.Sweep(
      id, [this, id, alive = std::weak_ptr<int>(alive_)](const Launcher::SweepResult& result) {
        if (alive.expired()) return;
        for (const std::string& process : result.unkillable) {
          Notice(Severity::kError,
                 fmt::format("process cannot be killed {} process=\"{}\"", Describe(id), process));
        }
        if (!result.unkillable.empty()) {
          executor_.PostAfter(kSweepAgain, [this, id, again = std::weak_ptr<int>(alive_)] {
            if (!again.expired()) SweepUnknown(id);
          });
          return;
        }
        launcher_.Release(id);
        live_[id].shim = ShimState::kNone;
        if (!state_.attempts.contains(id)) live_.erase(id);
        ScheduleReconcile();
      });
}

// --- Reconciling ---

void AgentCore::ScheduleReconcile() {
  if (std::exchange(reconcile_posted_, true)) return;
  PostSelf(&AgentCore::ReconcileAll);
}

void AgentCore::ReconcileAll() {
  reconcile_posted_ = false;
  std::vector<AttemptView> views;
  for (const auto& [id, attempt] : state_.attempts) {
    const Live& live = live_[id];
    views.push_back({.id = id,
                     .desired = attempt.assignment().desired(),
                     .grace = GraceOf(attempt.assignment()),
                     .shim = live.shim,
                     .prepared = attempt.prepared(),
                     .stopped = attempt.stopped(),
                     .remains = attempt.remains(),
                     .run_told = live.run_told,
                     .stop_told = live.stop_told,
                     .quit_told = live.quit_told});
  }
  for (const Action& action : Reconcile(views)) {
    if (NeedsJournal(action.kind) && !journal_ok_) continue;
    if (StartsSomething(action.kind) && !synced_) continue;
    Perform(action);
    ScheduleReconcile();
  }
  StartProbes();
}

void AgentCore::Perform(const Action& action) {
  const AttemptId& id = action.id;
  Live& live = live_[id];
  const JournalAttempt& attempt = state_.attempts.at(id);
  switch (action.kind) {
    case Action::Kind::kLaunch:
      Launch(id);
      break;
    case Action::Kind::kRun:
      live.run_told = true;
      launcher_.Run(id, ComposeRun(attempt.assignment().rendezvous()));
      break;
    case Action::Kind::kStop:
      live.stop_told = action.grace;
      launcher_.Stop(id, action.grace);
      break;
    case Action::Kind::kFinish:
      JournalFactsOf(FactsOfNothing(attempt, "", executor_.clock().WallNow()));
      break;
    case Action::Kind::kLose:
      JournalFactsOf(FactsOfNothing(attempt, kUnknownHere, executor_.clock().WallNow()));
      break;
    case Action::Kind::kQuit:
      live.quit_told = true;
      launcher_.Quit(id);
      break;
    case Action::Kind::kForget:
      Forget(id);
      break;
  }
}

void AgentCore::Forget(const AttemptId& id) {
  JournalRecord record;
  *record.mutable_forgotten() = KeyOf(id);
  const AttemptId copy = id;
  Journal(record);
  live_.erase(copy);
  launcher_.Release(copy);
  Notice(Severity::kInfo, fmt::format("attempt released {}", Describe(copy)));
  observer_.OnForgotten(copy);
}

// --- Time ---

void AgentCore::ArmTick() {
  tick_timer_ = executor_.PostAfter(kTick, [this] { Tick(); });
}

void AgentCore::Tick() {
  ArmTick();
  if (!journal_ok_ && RewriteJournal()) {
    journal_ok_ = true;
    durable_seq_ = state_.last_seq();
    Notice(Severity::kWarning, "journal can be written again");
    ScheduleFlush();
    ScheduleReconcile();
  }
  RenewLeases();
  CheckOverdue();
  CheckAbandoned();
}

void AgentCore::RenewLeases() {
  const std::optional<TimePoint> fresh = session_.fresh_since();
  if (!fresh) return;
  const auto age = std::chrono::duration_cast<milliseconds>(executor_.clock().Now() - *fresh);
  for (const auto& [id, attempt] : state_.attempts) {
    const std::optional<milliseconds> stop_after = StopAfter(attempt.assignment().launch());
    if (attempt.stopped() || !stop_after || live_[id].shim != ShimState::kFollowed) continue;
    // Renewed for the rest only; what ran out is left to run out.
    if (*stop_after > age) launcher_.Renew(id, *stop_after - age);
  }
}

// The lease is the shim's to keep. One that has not stopped its ranks long after it ran out is told
// to, and killed when it does not hear that either.
void AgentCore::CheckOverdue() {
  const TimePoint fresh = std::max(session_.fresh_since().value_or(started_at_), started_at_);
  const auto age = executor_.clock().Now() - fresh;
  for (const auto& [id, attempt] : state_.attempts) {
    const std::optional<milliseconds> stop_after = StopAfter(attempt.assignment().launch());
    Live& live = live_[id];
    if (attempt.stopped() || !stop_after || live.shim != ShimState::kFollowed) continue;
    if (age < *stop_after + kOverdue || std::exchange(live.overdue_told, true)) continue;
    launcher_.Stop(id, milliseconds(0));
  }
}

void AgentCore::CheckAbandoned() {
  if (!options_.ephemeral_after || abandoned_) return;
  const TimePoint heard = std::max(session_.fresh_since().value_or(started_at_), started_at_);
  if (executor_.clock().Now() - heard < *options_.ephemeral_after) return;
  for (const auto& [id, attempt] : state_.attempts) {
    if (!attempt.stopped()) return;
  }
  abandoned_ = true;
  for (const auto& [id, live] : live_) {
    if (live.shim == ShimState::kFollowed) launcher_.Quit(id);
  }
  observer_.OnAbandoned();
}

void AgentCore::PostSelf(void (AgentCore::*method)()) {
  executor_.Post([this, method, alive = std::weak_ptr<int>(alive_)] {
    if (!alive.expired()) (this->*method)();
  });
}

void AgentCore::Notice(Severity severity, const std::string& line) {
  observer_.OnNotice(severity, line);
}

}  // namespace muster
