#include "coordinator/core/node_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "coordinator/core/job_text.h"

namespace muster {

LeaseTerms ScaleLease(LeaseTerms base, size_t nodes, double max_per_second) {
  const double interval_s = std::chrono::duration<double>(base.heartbeat_interval).count();
  if (interval_s <= 0 || max_per_second <= 0) return base;
  const double factor = static_cast<double>(nodes) / interval_s / max_per_second;
  if (factor <= 1.0) return base;
  const auto stretch = [&](Duration d) {
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(d) * factor);
  };
  return {stretch(base.heartbeat_interval), stretch(base.lease_ttl)};
}

std::optional<Duration> NodeEntry::clock_offset() const {
  if (clock_samples.empty()) return std::nullopt;
  return *std::ranges::max_element(clock_samples);
}

NodeTable::NodeTable(LeaseTerms base, double max_per_second)
    : base_(base), max_per_second_(max_per_second) {}

void NodeTable::Restore(internal::NodeRecord record, TimePoint now) {
  NodeEntry& node = FindOrAdd(NodeId(record.node_id()));
  node.record = std::move(record);
  node.last_heard = now;
}

NodeEntry* NodeTable::Find(const NodeId& id) {
  const auto it = nodes_.find(id);
  return it == nodes_.end() ? nullptr : &it->second;
}

const NodeEntry* NodeTable::Find(const NodeId& id) const {
  const auto it = nodes_.find(id);
  return it == nodes_.end() ? nullptr : &it->second;
}

NodeEntry& NodeTable::FindOrAdd(const NodeId& id) {
  const auto [it, added] = nodes_.try_emplace(id);
  if (added) it->second.id = id;
  return it->second;
}

bool NodeTable::SetState(NodeEntry& node, v1::Node::State state) {
  if (node.state == state) return false;
  if (node.state == v1::Node::ALIVE) --alive_count_;
  if (node.state == v1::Node::LOST) --lost_count_;
  if (state == v1::Node::ALIVE) ++alive_count_;
  if (state == v1::Node::LOST) ++lost_count_;
  if (node.state == v1::Node::ALIVE || state == v1::Node::ALIVE) ++version_;
  node.state = state;
  return true;
}

bool NodeTable::SetSession(NodeEntry& node, SessionHandle session, TimePoint now,
                           WallTime wall_now) {
  node.session = session;
  if (session != SessionHandle::kNone) return Heard(node, now, wall_now);
  return node.state == v1::Node::ALIVE && SetState(node, v1::Node::SUSPECT);
}

bool NodeTable::Heard(NodeEntry& node, TimePoint now, WallTime wall_now) {
  node.last_heard = std::max(node.last_heard, now);
  node.last_seen = wall_now;
  return node.session != SessionHandle::kNone && SetState(node, v1::Node::ALIVE);
}

void NodeTable::SawClock(NodeEntry& node, WallTime sent, WallTime now) {
  constexpr size_t kSamples = 3;
  node.clock_samples.push_back(std::chrono::duration_cast<Duration>(sent - now));
  if (node.clock_samples.size() > kSamples) node.clock_samples.pop_front();
}

std::string NodeTable::ReasonOf(const NodeEntry& node, TimePoint now) const {
  if (node.state == v1::Node::ALIVE) return "";
  const std::string silence = DescribeDuration(
      std::chrono::floor<std::chrono::seconds>(std::max(now - node.last_heard, Duration::zero())));
  if (node.state == v1::Node::LOST) return fmt::format("no word from it for {}", silence);
  return node.session == SessionHandle::kNone
             ? fmt::format("its connection is gone, the last word came {} ago", silence)
             : fmt::format("its connection is silent for {}", silence);
}

Duration NodeTable::tick_interval() const {
  return std::max<Duration>(terms().lease_ttl / 10, std::chrono::milliseconds(10));
}

std::vector<NodeId> NodeTable::Expire(TimePoint now) {
  const LeaseTerms current = terms();
  Duration missed = Duration::zero();
  if (last_expire_.has_value() && now - *last_expire_ > 3 * tick_interval()) {
    missed = now - *last_expire_ - tick_interval();
  }
  last_expire_ = now;
  std::vector<NodeId> changed;
  for (auto& [id, node] : nodes_) {
    if (node.state == v1::Node::LOST) continue;
    if (missed > Duration::zero()) node.last_heard = std::min(now, node.last_heard + missed);
    const Duration silence = now - node.last_heard;
    v1::Node::State state = node.state;
    if (silence >= current.lease_ttl) {
      state = v1::Node::LOST;
    } else if (silence >= current.lease_ttl / 2 || node.session == SessionHandle::kNone) {
      state = v1::Node::SUSPECT;
    }
    if (state == node.state) continue;
    SetState(node, state);
    changed.push_back(id);
  }
  return changed;
}

LeaseTerms NodeTable::terms() const {
  return ScaleLease(base_, nodes_.size() - lost_count_, max_per_second_);
}

const NodeInventory& NodeTable::Alive() const {
  if (inventory_version_ == version_) return inventory_;
  inventory_version_ = version_;
  inventory_.nodes.clear();
  inventory_.identities.clear();
  for (const auto& [id, node] : nodes_) {
    if (node.state != v1::Node::ALIVE) continue;
    inventory_.nodes.push_back({id, node.record.facts()});
    inventory_.identities.push_back({node.record.boot_id(), node.record.journal_id()});
  }
  return inventory_;
}

}  // namespace muster
