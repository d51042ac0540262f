// Every node that ever joined: whether it is in contact, what it said about itself, and how far its
// journal is stored. Lives on the loop thread. Owns no timer and no stream; the caller tells it
// what happened and when, and asks it now and then to Expire.
//
//   ALIVE    it has a stream, and something came over it in the last half of the lease
//   SUSPECT  its stream is gone, or silent for longer than that; nothing is done about it
//   LOST     nothing was heard for a whole lease
//
// Silence is measured by the steady clock of this process. Clocks of nodes are compared with its
// own for people only.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "coordinator/core/node_identity.h"
#include "coordinator/core/scheduler.h"
#include "coordinator/session/agent_sink.h"
#include "muster/internal/record.pb.h"
#include "muster/v1/agent.pb.h"
#include "muster/v1/node.pb.h"

namespace muster {

// How long silence may last, for the number of nodes there are.
struct LeaseTerms {
  Duration heartbeat_interval;
  Duration lease_ttl;
};

// Stretches both in proportion once `nodes` nodes would send more than `max_per_second` heartbeats.
LeaseTerms ScaleLease(LeaseTerms base, size_t nodes, double max_per_second);

// One node.
struct NodeEntry {
  NodeId id;
  v1::Node::State state = v1::Node::SUSPECT;
  // What the store has, or is about to have.
  internal::NodeRecord record;
  // The newest session, while it is open.
  SessionHandle session = SessionHandle::kNone;
  TimePoint last_heard{};
  std::optional<WallTime> last_seen;
  // Of the newest Hello that was taken, by the clock of the node's boot; 0 when there was none.
  uint64_t greeted_steady_ns = 0;
  // Whether its agent answers probes of a rendezvous; nothing before it has greeted this
  // coordinator.
  std::optional<bool> can_probe;
  NodeIdentity identity;
  // What somebody has to look at, in words; empty: nothing.
  std::string alarm;
  // What its cards said last, and when; empty: nothing since the coordinator started.
  std::vector<v1::DeviceReading> readings;
  WallTime readings_time{};
  // The newest estimates of the node's clock minus this one, the newest last.
  std::deque<Duration> clock_samples;

  // Clock of the node minus this one; nothing before the first heartbeat. A heartbeat that took
  // long makes the node look late, so the largest of the newest counts.
  std::optional<Duration> clock_offset() const;

  // A Hello that was made before the newest one, or is that one again: a network has delivered it
  // late or twice. What it says about attempts is not true any more. Never for a node that is lost:
  // then nothing is left to be harmed, and a clock that went back must not keep a node away.
  bool IsStale(const v1::Hello& hello) const {
    return state != v1::Node::LOST && hello.boot_id() == record.boot_id() &&
           hello.steady_ns() != 0 && hello.steady_ns() <= greeted_steady_ns;
  }
};

class NodeTable {
 public:
  NodeTable(LeaseTerms base, double max_per_second);

  // A node of the store, when the coordinator starts at `now`: SUSPECT, and LOST one lease later.
  void Restore(internal::NodeRecord record, TimePoint now);

  NodeEntry* Find(const NodeId& id);
  const NodeEntry* Find(const NodeId& id) const;
  // A node that says Hello; added if it is new.
  NodeEntry& FindOrAdd(const NodeId& id);

  // The session of a node began or ended (kNone). True when the state changed.
  bool SetSession(NodeEntry& node, SessionHandle session, TimePoint now, WallTime wall_now);
  // Something came from the node. Any message counts. True when the state changed.
  bool Heard(NodeEntry& node, TimePoint now, WallTime wall_now);
  // A heartbeat that was sent at `sent` by the clock of the node came at `now`.
  static void SawClock(NodeEntry& node, WallTime sent, WallTime now);
  NodeIdentity::Contact ContactOf(const NodeEntry& node) const {
    return {node.session != SessionHandle::kNone, node.last_heard, terms().lease_ttl};
  }
  // Why a node is not ALIVE at `now`, in words; empty when it is.
  std::string ReasonOf(const NodeEntry& node, TimePoint now) const;
  // The node's identity or facts changed: what is known about who is there has to be looked at
  // again.
  void Changed() { ++version_; }

  // Re-evaluates every node at `now` and returns those whose state changed. Must be called about
  // every `tick_interval`; when it was called much later than that, it was this process that stood
  // still, and every node is given the time that was missed.
  std::vector<NodeId> Expire(TimePoint now);
  Duration tick_interval() const;

  // Terms for the present number of nodes that are not lost.
  LeaseTerms terms() const;
  // The nodes that are in contact. Rebuilt only when something changed.
  const NodeInventory& Alive() const;
  // Changes whenever Alive() does.
  uint64_t version() const { return version_; }
  size_t alive_count() const { return alive_count_; }

  // By name.
  const std::map<NodeId, NodeEntry>& nodes() const { return nodes_; }

 private:
  bool SetState(NodeEntry& node, v1::Node::State state);

  const LeaseTerms base_;
  const double max_per_second_;
  std::map<NodeId, NodeEntry> nodes_;
  std::optional<TimePoint> last_expire_;
  uint64_t version_ = 1;
  size_t alive_count_ = 0;
  size_t lost_count_ = 0;
  mutable uint64_t inventory_version_ = 0;
  mutable NodeInventory inventory_;
};

}  // namespace muster
