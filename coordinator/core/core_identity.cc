// The part of the core that deals with nodes that are there twice: see node_identity.h.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/version.h"
#include "coordinator/core/core_impl.h"
#include "coordinator/core/job_text.h"
#include "coordinator/core/proto_time.h"

namespace muster {

bool CoordinatorCore::Impl::IsWhoItSays(AgentSession& session, const v1::Hello& hello) {
  NodeEntry& node = *nodes_.Find(NodeId(hello.node_id()));
  const NodeIdentity::Contact contact = nodes_.ContactOf(node);
  switch (node.identity.Judge(node.record, hello, contact, executor_.clock().Now())) {
    case Claim::kGood:
      return true;
    case Claim::kTooEarly:
      Note(NoteLevel::kInfo, fmt::format("greeting refused for now node={} other=\"{}\"",
                                         node.id.value(), node.identity.other()));
      session.Close(absl::UnavailableError(
          fmt::format("another boot or another process of {} was heard a moment ago; this one is "
                      "taken once that is silent for {}",
                      node.id.value(), DescribeDuration(contact.lease))));
      return false;
    case Claim::kForeign:
      if (node.alarm.empty()) {
        Alarm(node, fmt::format("an agent that another one has replaced is back ({}): the state "
                                "directory of its agent was copied",
                                node.identity.other()));
      }
      Fence(session, node, hello);
      return false;
  }
  return true;
}

void CoordinatorCore::Impl::Fence(AgentSession& session, const NodeEntry& node,
                                  const v1::Hello& hello) {
  v1::Welcome welcome;
  welcome.set_coordinator_epoch(epoch_);
  welcome.mutable_version()->set_major(kProtocolMajor);
  welcome.mutable_version()->set_minor(kProtocolMinor);
  *welcome.mutable_heartbeat_interval() = ToProtoDuration(nodes_.terms().heartbeat_interval);
  *welcome.mutable_lease_ttl() = ToProtoDuration(nodes_.terms().lease_ttl);
  // What the agent will believe: an agent refuses whoever has forgotten events of its journal.
  uint64_t acked = hello.oldest_event_seq() > 0 ? hello.oldest_event_seq() - 1 : 0;
  if (hello.journal_id() == node.record.journal_id()) acked = node.record.acked_event_seq();
  for (const internal::EarlierBoot& boot : node.record.earlier_boots()) {
    if (boot.journal_id() == hello.journal_id()) acked = boot.acked_event_seq();
  }
  welcome.set_acked_event_seq(acked);
  // What it has was given up when it was replaced. Its output stays there, for people.
  v1::AssignmentSnapshot snapshot;
  for (const v1::AttemptReport& report : hello.attempts()) {
    v1::Assignment& assignment = *snapshot.add_assignments();
    *assignment.mutable_key() = report.key();
    assignment.set_generation(kReleasedGeneration - 1);
    assignment.set_desired(v1::Assignment::STOPPED);
  }
  session.Greet(hello, NewSessionId());
  session.Open(std::move(welcome), std::move(snapshot));
  session.Close(absl::FailedPreconditionError(fmt::format(
      "another machine serves as {0}, with a copy of this one's state and key, and this one is not "
      "served any more: let one of the two join under a name of its own (a new --state-dir, or "
      "`agent join` after removing the old one), or stop the other one and boot this one again",
      node.id.value())));
}

void CoordinatorCore::Impl::Heard(NodeEntry& node) {
  const TimePoint now = executor_.clock().Now();
  if (nodes_.Heard(node, now, executor_.clock().WallNow())) {
    Enqueue([this, id = node.id] { OnContactChanged(id); });
  }
  if (!node.identity.ShowsACopy(node.record, nodes_.ContactOf(node), now)) return;
  Alarm(node, fmt::format("another machine or process with its key is there ({}): the state "
                          "directory of its agent was copied; the copy is not served",
                          node.identity.other()));
  Enqueue([this, id = node.id] { dirty_nodes_.insert(id); });
}

void CoordinatorCore::Impl::Alarm(NodeEntry& node, std::string text) {
  Note(NoteLevel::kError,
       fmt::format("node is there twice node={} alarm=\"{}\"", node.id.value(), text));
  if (options_.alarm) options_.alarm(node.id, text);
  node.alarm = std::move(text);
}

}  // namespace muster
