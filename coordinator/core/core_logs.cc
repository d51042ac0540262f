// The part of the core that knows how much output there will be.
#include <algorithm>

#include "coordinator/core/core_impl.h"

namespace muster {

bool CoordinatorCore::Impl::NodeLogsStored(const JobEntry& entry, const AttemptRecord& attempt,
                                           uint32_t node_index) const {
  const NodeProgress& progress = attempt.nodes[node_index];
  const NodeEntry* node = nodes_.Find(progress.node);
  // What a journal kept is gone with it: more will never come.
  if (node != nullptr && node->record.journal_id() != progress.journal_id) return true;
  const std::vector<uint64_t>& committed = entry.committed[attempt.number - 1];
  for (uint32_t rank : progress.ranks) {
    // A rank whose node is gone and whose log was not closed has none.
    if (attempt.ranks[rank].log_closed && committed[rank] < attempt.ranks[rank].log_size) {
      return false;
    }
  }
  return true;
}

RankLogState CoordinatorCore::Impl::LogStateOf(const AttemptRecord& attempt, uint32_t rank) const {
  const RankProgress& progress = attempt.ranks[rank];
  const NodeProgress& node = attempt.nodes[progress.node_index];
  RankLogState state;
  if (!progress.log_closed) {
    state.abandoned = attempt.over() || node.gone;
    return state;
  }
  state.final_size = progress.log_size;
  const NodeEntry* entry = nodes_.Find(node.node);
  state.abandoned = entry == nullptr || entry->state == v1::Node::LOST ||
                    entry->record.journal_id() != node.journal_id;
  return state;
}

void CoordinatorCore::Impl::OnLogCommitted(const AttemptId& id, Rank rank, uint64_t size) {
  JobEntry* entry = jobs_.Find(id.job);
  const AttemptRecord* attempt = entry == nullptr ? nullptr : entry->record.FindAttempt(id.attempt);
  if (attempt == nullptr || rank.value >= attempt->ranks.size()) return;
  uint64_t& committed = entry->committed[id.attempt - 1][rank.value];
  if (size <= committed) return;
  committed = size;
  const RankProgress& progress = attempt->ranks[rank.value];
  if (!attempt->over() || !progress.log_closed || size < progress.log_size) return;
  // A job that is being stored may not be acted on: its turn comes.
  if (!entry->in_flight) TryRelease(*entry, *attempt, progress.node_index);
}

bool CoordinatorCore::Impl::MayUpload(const NodeId& node, const AttemptId& id, Rank rank) const {
  const JobEntry* entry = jobs_.Find(id.job);
  const AttemptRecord* attempt = entry == nullptr ? nullptr : entry->record.FindAttempt(id.attempt);
  return attempt != nullptr && rank.value < attempt->ranks.size() &&
         attempt->nodes[attempt->ranks[rank.value].node_index].node == node;
}

std::optional<CoordinatorCore::JobShape> CoordinatorCore::Impl::ShapeOf(const JobId& job) const {
  const JobEntry* entry = jobs_.Find(job);
  if (entry == nullptr) return std::nullopt;
  JobShape shape;
  shape.attempts = static_cast<uint32_t>(entry->record.attempts.size());
  if (shape.attempts > 0) {
    shape.ranks = static_cast<uint32_t>(entry->record.attempts.back().ranks.size());
  }
  return shape;
}

std::optional<RankLogState> CoordinatorCore::Impl::LogState(const AttemptId& id, Rank rank) const {
  const JobEntry* entry = jobs_.Find(id.job);
  const AttemptRecord* attempt = entry == nullptr ? nullptr : entry->record.FindAttempt(id.attempt);
  if (attempt == nullptr || rank.value >= attempt->ranks.size()) return std::nullopt;
  return LogStateOf(*attempt, rank.value);
}

bool CoordinatorCore::Impl::LogsComplete(const AttemptId& id,
                                         const std::vector<Rank>& ranks) const {
  const JobEntry* entry = jobs_.Find(id.job);
  const AttemptRecord* attempt = entry == nullptr ? nullptr : entry->record.FindAttempt(id.attempt);
  if (attempt == nullptr) return false;
  const std::vector<uint64_t>& committed = entry->committed[id.attempt - 1];
  const auto complete = [&](uint32_t rank) {
    return rank < attempt->ranks.size() && LogStateOf(*attempt, rank).EndsAt(committed[rank]);
  };
  if (!ranks.empty()) {
    return std::all_of(ranks.begin(), ranks.end(), [&](Rank rank) { return complete(rank.value); });
  }
  for (uint32_t rank = 0; rank < attempt->ranks.size(); ++rank) {
    if (!complete(rank)) return false;
  }
  return true;
}

bool CoordinatorCore::Impl::HasEnded(const JobId& job) const {
  const JobEntry* entry = jobs_.Find(job);
  return entry != nullptr && entry->record.terminal() && !entry->in_flight;
}

}  // namespace muster
