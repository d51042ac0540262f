// The part of the core that deals with agents: Hello, events, contact, and what nodes are told.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/annotate.h"
#include "common/base/version.h"
#include "coordinator/core/card_use.h"
#include "coordinator/core/core_impl.h"
#include "coordinator/core/job_text.h"
#include "coordinator/core/proto_time.h"
#include "coordinator/core/rendezvous.h"
#include "coordinator/core/scheduler.h"
#include "coordinator/plan/plan_job.h"
#include "coordinator/session/event_window.h"
#include "coordinator/session/hello_check.h"

namespace muster {
namespace {

// Less than this may be the time that a heartbeat travels; clocks of a cluster agree better.
constexpr Duration kClockOffsetThatCounts = std::chrono::seconds(1);

}  // namespace

SessionHandle CoordinatorCore::Impl::OnAgentConnected(AgentSink* sink,
                                                      std::optional<NodeId> authenticated) {
  return sessions_.Add(sink, std::move(authenticated)).handle();
}

void CoordinatorCore::Impl::OnAgentMessage(SessionHandle handle, v1::AgentMessage message) {
  AgentSession* session = sessions_.Find(handle);
  if (session == nullptr || session->closed()) return;
  NodeEntry* node = nullptr;
  if (!session->node().empty() && sessions_.LiveOf(session->node()) == session) {
    node = nodes_.Find(session->node());
  }
  if (node != nullptr) Heard(*node);
  switch (message.body_case()) {
    case v1::AgentMessage::kHeartbeat:
      if (node != nullptr && message.heartbeat().has_send_time()) {
        NodeTable::SawClock(*node, ToWallTime(message.heartbeat().send_time()),
                            executor_.clock().WallNow());
      }
      if (node != nullptr && !message.heartbeat().readings().empty()) {
        node->readings.assign(message.heartbeat().readings().begin(),
                              message.heartbeat().readings().end());
        node->readings_time = executor_.clock().WallNow();
      }
      // At once: a lease must not wait for a disk.
      session->AckHeartbeat(message.heartbeat().sequence(), executor_.clock().WallNow());
      return;
    case v1::AgentMessage::kHello:
      return Enqueue(
          [this, handle, hello = std::move(*message.mutable_hello())] { OnHello(handle, hello); });
    case v1::AgentMessage::kEvents:
      return Enqueue([this, handle, events = std::move(*message.mutable_events())] {
        OnEvents(handle, events);
      });
    case v1::AgentMessage::kCheckReport:
      if (node != nullptr) checks_.OnReport(node->id, std::move(*message.mutable_check_report()));
      return;
    case v1::AgentMessage::BODY_NOT_SET:
      return;  // Of a newer version.
  }
}

void CoordinatorCore::Impl::OnAgentDisconnected(SessionHandle handle) {
  AgentSession* session = sessions_.Find(handle);
  if (session == nullptr) return;
  session->Detach();
  // In order: what came before the end still counts.
  Enqueue([this, handle] { OnGone(handle); });
}

void CoordinatorCore::Impl::OnGone(SessionHandle handle) {
  const std::optional<NodeId> id = sessions_.Remove(handle);
  if (!id.has_value()) return;
  NodeEntry* node = nodes_.Find(*id);
  Note(NoteLevel::kInfo, fmt::format("node disconnected node={}", id->value()));
  checks_.OnGone(*id);
  if (nodes_.SetSession(*node, SessionHandle::kNone, executor_.clock().Now(),
                        executor_.clock().WallNow())) {
    OnContactChanged(*id);
  }
}

void CoordinatorCore::Impl::OnHello(SessionHandle handle, const v1::Hello& hello) {
  AgentSession* session = sessions_.Find(handle);
  if (session == nullptr || session->closed()) return;
  if (session->state() != AgentSession::State::kConnected) {
    return session->Close(absl::InvalidArgumentError("hello: only once on a stream"));
  }
  const absl::Status fit = CheckHello(hello, options_.cluster_id, session->authenticated());
  if (!fit.ok()) {
    Note(NoteLevel::kWarn,
         fmt::format("agent refused node={} error=\"{}\"", hello.node_id(), MessageOf(fit)));
    return session->Close(fit);
  }
  const NodeId id(hello.node_id());
  const NodeEntry* known = nodes_.Find(id);
  if (known != nullptr && known->IsStale(hello)) {
    Note(NoteLevel::kWarn, fmt::format("late greeting refused node={}", id.value()));
    return session->Close(absl::AbortedError("a newer session of this node has begun"));
  }
  if (known != nullptr && !IsWhoItSays(*session, hello)) return;
  const bool same_journal = known != nullptr && known->record.journal_id() == hello.journal_id();
  uint64_t acked = hello.oldest_event_seq() > 0 ? hello.oldest_event_seq() - 1 : 0;
  if (same_journal) {
    if (acked > known->record.acked_event_seq()) {
      const absl::Status gap = absl::FailedPreconditionError(
          fmt::format("events: seq {} of {} expected next, the agent's oldest is {}",
                      known->record.acked_event_seq() + 1, id.value(), hello.oldest_event_seq()));
      Note(NoteLevel::kError, MessageOf(gap));
      return session->Close(gap);
    }
    acked = known->record.acked_event_seq();
  }
  session->Greet(hello, NewSessionId());
  if (!sessions_.MakeLive(*session)) return;

  NodeEntry& node = nodes_.FindOrAdd(id);
  given_up_.erase(id);
  node.record.set_node_id(hello.node_id());
  node.identity.Take(node.record, hello);
  node.record.set_acked_event_seq(acked);
  node.greeted_steady_ns = hello.steady_ns();
  node.can_probe = std::find(hello.capabilities().begin(), hello.capabilities().end(),
                             kProbeCapability) != hello.capabilities().end();
  *node.record.mutable_facts() = hello.facts();
  *node.record.mutable_last_welcome() = ToTimestamp(executor_.clock().WallNow());
  dirty_nodes_.insert(id);
  nodes_.SetSession(node, handle, executor_.clock().Now(), executor_.clock().WallNow());
  nodes_.Changed();
  OnContactChanged(id);

  const std::vector<AttemptNodeRef> refs = jobs_.OnNode(id);
  for (const AttemptNodeRef& ref : refs) {
    const AttemptRecord& attempt = *ref.job->record.FindAttempt(ref.attempt);
    const auto held = session->held().find({ref.job->id, ref.attempt});
    const bool still_held = held != session->held().end() && held->second < kReleasedGeneration;
    if (still_held) continue;
    const NodeProgress& progress = attempt.nodes[ref.node_index];
    if (attempt.over()) {
      if (!progress.gone) continue;
      // Released earlier, and perhaps this coordinator does not know any more that it was.
      ref.job->released[ref.attempt - 1][ref.node_index] = true;
      jobs_.DropRef(id, *ref.job, ref.attempt);
    } else if (progress.phase == v1::JobNode::PREPARED || progress.phase == v1::JobNode::RUNNING) {
      LoseNode(ref, "its agent does not know the attempt any more", false);
    }
  }
  afterwards_.push_back({[this, handle] { Welcome(handle); }, false});
}

void CoordinatorCore::Impl::Welcome(SessionHandle handle) {
  AgentSession* session = sessions_.Find(handle);
  if (session == nullptr || session->state() != AgentSession::State::kGreeting ||
      sessions_.LiveOf(session->node()) != session) {
    return;
  }
  NodeEntry& node = *nodes_.Find(session->node());
  // It could not be heard of while it waited for this.
  Heard(node);
  const LeaseTerms terms = nodes_.terms();
  v1::Welcome welcome;
  welcome.set_coordinator_epoch(epoch_);
  welcome.mutable_version()->set_major(kProtocolMajor);
  welcome.mutable_version()->set_minor(kProtocolMinor);
  *welcome.mutable_heartbeat_interval() = ToProtoDuration(terms.heartbeat_interval);
  *welcome.mutable_lease_ttl() = ToProtoDuration(terms.lease_ttl);
  if (options_.telemetry_interval > Duration::zero()) {
    *welcome.mutable_telemetry_interval() = ToProtoDuration(options_.telemetry_interval);
  }
  welcome.set_acked_event_seq(node.record.acked_event_seq());
  if (options_.probe_rendezvous && node.can_probe.value_or(false)) {
    welcome.add_capabilities(kProbeCapability);
  }
  session->Open(std::move(welcome), SnapshotFor(*session));
  Note(NoteLevel::kInfo,
       fmt::format("node joined node={} boot={} journal={} acked_seq={}", node.id.value(),
                   node.record.boot_id(), node.record.journal_id(), node.record.acked_event_seq()));
}

v1::AssignmentSnapshot CoordinatorCore::Impl::SnapshotFor(AgentSession& session) {
  v1::AssignmentSnapshot snapshot;
  const NodeId& node = session.node();
  // What the agent holds: left out, it would be forgotten.
  std::vector<AttemptId> dropped;
  for (const auto& [id, generation] : session.held()) {
    JobEntry* entry = jobs_.Find(id.job);
    const AttemptRecord* attempt =
        entry == nullptr ? nullptr : entry->record.FindAttempt(id.attempt);
    const std::optional<uint32_t> index =
        attempt == nullptr ? std::nullopt : JobIndex::NodeIndexOf(*attempt, node);
    if (!index.has_value()) continue;
    const bool released = entry->released[id.attempt - 1][*index];
    const v1::Assignment assignment = AssignmentFor(
        id.job, *attempt, *index, released || NodeLogsStored(*entry, *attempt, *index));
    if (assignment.desired() == v1::Assignment::RELEASED) dropped.push_back(id);
    session.Noted(id, assignment.generation());
    *snapshot.add_assignments() = assignment;
  }
  for (const AttemptId& id : dropped) session.Drop(id);
  // What it does not hold and has to do something about.
  for (const AttemptNodeRef& ref : jobs_.OnNode(node)) {
    const AttemptId id{ref.job->id, ref.attempt};
    const AttemptRecord& attempt = *ref.job->record.FindAttempt(ref.attempt);
    if (session.HeldAtHello(id) || attempt.nodes[ref.node_index].gone) continue;
    v1::Assignment assignment = AssignmentFor(id.job, attempt, ref.node_index, false);
    if (!AddLaunch(*ref.job, attempt, ref.node_index, assignment)) continue;
    session.Noted(id, assignment.generation());
    *snapshot.add_assignments() = std::move(assignment);
  }
  return snapshot;
}

void CoordinatorCore::Impl::PublishAssignments(JobEntry& entry) {
  for (const AttemptRecord& attempt : entry.record.attempts) {
    const AttemptId id{entry.id, attempt.number};
    const uint64_t generation = GenerationOf(attempt);
    if (!attempt.over()) {
      if (generation <= entry.published_generation) continue;
      entry.published_generation = generation;
    }
    for (uint32_t i = 0; i < attempt.nodes.size(); ++i) {
      if (entry.released[attempt.number - 1][i]) continue;
      if (attempt.nodes[i].gone) {
        TryRelease(entry, attempt, i);
        continue;
      }
      AgentSession* session = sessions_.LiveOf(attempt.nodes[i].node);
      if (session == nullptr || !session->open()) continue;
      v1::Assignment assignment = AssignmentFor(entry.id, attempt, i, false);
      if (!session->Wants(id, assignment.generation())) continue;
      if (!session->Knows(id) && !AddLaunch(entry, attempt, i, assignment)) continue;
      session->Noted(id, assignment.generation());
      session->Assign(std::move(assignment));
    }
  }
}

std::optional<ProbeView> CoordinatorCore::Impl::ProbeViewOf(const JobRecord& job) const {
  const AttemptRecord* const attempt = job.live_attempt();
  if (!options_.probe_rendezvous || job.state != v1::Job::PREPARING || attempt == nullptr ||
      !MayProbe(*attempt)) {
    return std::nullopt;
  }
  ProbeView view;
  const NodeProgress& first = attempt->nodes[RendezvousNode(*attempt)];
  const std::set<std::string> proposed(first.addresses.begin(), first.addresses.end());
  for (uint32_t i = 0; i < attempt->nodes.size(); ++i) {
    const NodeEntry* const node = nodes_.Find(attempt->nodes[i].node);
    if (node == nullptr || !node->can_probe.has_value()) return std::nullopt;
    if (*node->can_probe) view.able.push_back(i);
    if (node->record.boot_id() == first.boot_id) continue;
    for (const std::string& address : node->record.facts().addresses()) {
      if (proposed.contains(address)) view.ambiguous.insert(address);
    }
  }
  return view;
}

void CoordinatorCore::Impl::TryRelease(JobEntry& entry, const AttemptRecord& attempt,
                                       uint32_t node_index) {
  const NodeProgress& node = attempt.nodes[node_index];
  if (!attempt.over() || !node.gone || entry.released[attempt.number - 1][node_index] ||
      !NodeLogsStored(entry, attempt, node_index)) {
    return;
  }
  entry.released[attempt.number - 1][node_index] = true;
  jobs_.DropRef(node.node, entry, attempt.number);
  const AttemptId id{entry.id, attempt.number};
  // Without a session: an agent that still has it when it comes back is told then.
  AgentSession* session = sessions_.LiveOf(node.node);
  if (session == nullptr || !session->open() || !session->Knows(id)) return;
  session->Assign(AssignmentFor(entry.id, attempt, node_index, true));
  session->Drop(id);
}

void CoordinatorCore::Impl::ReleaseForgotten(const JobEntry& entry) {
  for (const AttemptRecord& attempt : entry.record.attempts) {
    for (uint32_t i = 0; i < attempt.nodes.size(); ++i) {
      if (entry.released[attempt.number - 1][i]) continue;
      const auto release = [this, node = attempt.nodes[i].node,
                            id = AttemptId{entry.id, attempt.number}] {
        // Without a session: a snapshot without the attempt says the same.
        AgentSession* session = sessions_.LiveOf(node);
        if (session == nullptr || !session->open() || !session->Knows(id)) return;
        v1::Assignment assignment;
        assignment.mutable_key()->set_job_id(id.job.value());
        assignment.mutable_key()->set_attempt(id.attempt);
        assignment.set_generation(kReleasedGeneration);
        assignment.set_desired(v1::Assignment::RELEASED);
        session->Assign(std::move(assignment));
        session->Drop(id);
      };
      afterwards_.push_back({release, false});
    }
  }
}

bool CoordinatorCore::Impl::AddLaunch(JobEntry& entry, const AttemptRecord& attempt,
                                      uint32_t node_index, v1::Assignment& assignment) {
  if (assignment.desired() != v1::Assignment::PREPARED &&
      assignment.desired() != v1::Assignment::RUNNING) {
    return true;
  }
  if (entry.layout == nullptr) {
    absl::StatusOr<v1::Plan> plan = ReplanAttempt(entry.record, attempt);
    if (!plan.ok()) {
      Note(NoteLevel::kError,
           fmt::format("cannot launch job={} attempt={} error=\"{}\"", entry.id.value(),
                       attempt.number, MessageOf(plan.status())));
      return false;
    }
    entry.layout = std::make_shared<const v1::Plan>(*std::move(plan));
  }
  v1::LaunchSpec& launch = *assignment.mutable_launch();
  launch = entry.layout->nodes(static_cast<int>(node_index)).launch();
  AddEnvironment(*entry.record.spec, attempt.nodes[node_index].host, launch);
  launch.set_holder(HolderText(entry));
  launch.set_submitter(entry.record.submitter);
  return true;
}

void CoordinatorCore::Impl::OnEvents(SessionHandle handle, const v1::EventBatch& events) {
  AgentSession* session = sessions_.Find(handle);
  if (session == nullptr || session->closed()) return;
  if (session->state() == AgentSession::State::kConnected) {
    return session->Close(absl::InvalidArgumentError("hello: expected first"));
  }
  if (sessions_.LiveOf(session->node()) != session) return;
  NodeEntry& node = *nodes_.Find(session->node());
  const absl::StatusOr<int> first = FirstNewEvent(events, node.record.acked_event_seq());
  if (!first.ok()) {
    Note(NoteLevel::kError,
         fmt::format("event gap node={} error=\"{}\"", node.id.value(), MessageOf(first.status())));
    return session->Close(first.status());
  }
  if (events.events().empty()) return;
  ack_nodes_.insert(node.id);
  if (*first == events.events_size()) return;
  for (int i = *first; i < events.events_size(); ++i) OnEvent(node, events.events(i));
  node.record.set_acked_event_seq(events.events(events.events_size() - 1).seq());
  dirty_nodes_.insert(node.id);
}

void CoordinatorCore::Impl::OnEvent(const NodeEntry& node, const v1::Event& event) {
  JobEntry* entry = jobs_.Find(JobId(event.key().job_id()));
  const AttemptRecord* attempt =
      entry == nullptr ? nullptr : entry->record.FindAttempt(event.key().attempt());
  std::optional<uint32_t> index;
  if (attempt != nullptr) {
    for (const AttemptNodeRef& ref : jobs_.OnNode(node.id)) {
      if (ref.job == entry && ref.attempt == attempt->number) index = ref.node_index;
    }
    if (!index.has_value()) index = JobIndex::NodeIndexOf(*attempt, node.id);
  }
  if (!index.has_value()) {
    Note(NoteLevel::kWarn,
         fmt::format("event of an unknown attempt node={} seq={} job={} attempt={}",
                     node.id.value(), event.seq(), event.key().job_id(), event.key().attempt()));
    return;
  }
  internal::JobEvent recorded;
  recorded.mutable_reported()->set_node_index(*index);
  *recorded.mutable_reported()->mutable_event() = event;
  const std::optional<Duration> offset = node.clock_offset();
  if (offset.has_value() && std::chrono::abs(*offset) >= kClockOffsetThatCounts) {
    *recorded.mutable_reported()->mutable_clock_offset() = ToProtoDuration(*offset);
  }
  Record(*entry, std::move(recorded));
}

void CoordinatorCore::Impl::CheckAttempts(const NodeEntry& node) {
  const std::vector<AttemptNodeRef> refs = jobs_.OnNode(node.id);
  for (const AttemptNodeRef& ref : refs) {
    const AttemptRecord& attempt = *ref.job->record.FindAttempt(ref.attempt);
    const NodeProgress& progress = attempt.nodes[ref.node_index];
    const bool rebooted = node.record.boot_id() != progress.boot_id;
    const bool unsettled = !attempt.over() && !progress.settled();
    if (rebooted) {
      if (unsettled || !progress.gone) LoseNode(ref, "it was rebooted", true);
    } else if (unsettled && node.record.journal_id() != progress.journal_id) {
      LoseNode(ref, "its agent lost its journal and with it the attempt", false);
    } else if (unsettled && node.state == v1::Node::LOST) {
      LoseNode(
          ref,
          node.identity.AnotherBootWaits(node.record)
              ? "it was rebooted"
              : fmt::format("no word from it for {}", DescribeDuration(nodes_.terms().lease_ttl)),
          false);
    }
  }
}

void CoordinatorCore::Impl::LoseNode(const AttemptNodeRef& ref, std::string reason, bool fenced) {
  Note(NoteLevel::kWarn, fmt::format("node lost job={} attempt={} node_index={} reason=\"{}\"",
                                     ref.job->id.value(), ref.attempt, ref.node_index, reason));
  internal::JobEvent event;
  internal::AttemptNodeLost& lost = *event.mutable_node_lost();
  lost.set_attempt(ref.attempt);
  lost.set_node_index(ref.node_index);
  lost.set_reason(std::move(reason));
  lost.set_fenced(fenced);
  Record(*ref.job, std::move(event));
}

void CoordinatorCore::Impl::OnContactChanged(const NodeId& id) {
  const NodeEntry& node = *nodes_.Find(id);
  if (node.state == v1::Node::LOST) {
    Note(NoteLevel::kWarn, fmt::format("node lost node={}", id.value()));
  }
  for (const AttemptNodeRef& ref : jobs_.OnNode(id)) {
    ++ref.job->volatile_revision;
    Touch(*ref.job);
  }
  CheckAttempts(node);
}

void CoordinatorCore::Impl::Tick() {
  for (const NodeId& id : nodes_.Expire(executor_.clock().Now())) {
    Enqueue([this, id] { OnContactChanged(id); });
  }
  PostAfter(nodes_.tick_interval(), [this] { Tick(); });
}

}  // namespace muster
