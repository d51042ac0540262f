#include "coordinator/core/job_index.h"

#include <algorithm>

namespace muster {

JobEntry& JobIndex::Add(JobId id) {
  std::unique_ptr<JobEntry>& entry = jobs_[id];
  entry = std::make_unique<JobEntry>();
  entry->id = std::move(id);
  entry->sequence = ++last_sequence_;
  entry->volatile_revision = first_volatile_revision_;
  by_sequence_[entry->sequence] = entry.get();
  return *entry;
}

void JobIndex::Remove(JobEntry& entry) {
  SetWake(entry, std::nullopt);
  Count(entry, {});
  waiting_.erase(&entry);
  if (ended_.erase(entry.sequence) > 0) ended_ranks_ -= RanksOf(entry);
  by_sequence_.erase(entry.sequence);
  const auto request = by_request_.find({entry.record.submitter, entry.record.request_id});
  if (request != by_request_.end() && request->second == &entry) by_request_.erase(request);
  for (const AttemptRecord& attempt : entry.record.attempts) {
    for (const NodeProgress& node : attempt.nodes) DropRef(node.node, entry, attempt.number);
  }
  const JobId id = entry.id;
  jobs_.erase(id);
}

JobEntry* JobIndex::Find(const JobId& id) {
  const auto it = jobs_.find(id);
  return it == jobs_.end() ? nullptr : it->second.get();
}

const JobEntry* JobIndex::Find(const JobId& id) const {
  const auto it = jobs_.find(id);
  return it == jobs_.end() ? nullptr : it->second.get();
}

void JobIndex::Update(JobEntry& entry) {
  const JobRecord& record = entry.record;
  if (record.state == v1::Job::PENDING) {
    waiting_.insert(&entry);
    if (!record.request_id.empty()) by_request_[{record.submitter, record.request_id}] = &entry;
  } else {
    waiting_.erase(&entry);
  }
  if (record.terminal() && ended_.try_emplace(entry.sequence, &entry).second) {
    ended_ranks_ += RanksOf(entry);
  }
  if (record.terminal()) {
    Count(entry, {});
  } else if (record.spec != nullptr) {
    Count(entry, {.jobs = 1,
                  .ranks = record.attempts.empty() ? RanksAsked(*record.spec)
                                                   : record.attempts.back().ranks.size()});
  }
  while (entry.committed.size() < record.attempts.size()) {
    const AttemptRecord& attempt = record.attempts[entry.committed.size()];
    entry.committed.emplace_back(attempt.ranks.size(), 0);
    entry.released.emplace_back(attempt.nodes.size(), false);
    entry.published_generation = 0;
    entry.layout.reset();
    for (uint32_t i = 0; i < attempt.nodes.size(); ++i) {
      on_node_[attempt.nodes[i].node].push_back({&entry, attempt.number, i});
    }
  }
}

UserUsage JobIndex::UsageOf(const std::string& submitter) const {
  const auto found = usage_.find(submitter);
  return found == usage_.end() ? UserUsage{} : found->second;
}

void JobIndex::Count(JobEntry& entry, const UserUsage& usage) {
  const UserUsage before = std::exchange(entry.counted, usage);
  if (before.jobs == usage.jobs && before.ranks == usage.ranks) return;
  UserUsage& all = usage_[entry.record.submitter];
  all.jobs += usage.jobs - before.jobs;
  all.ranks += usage.ranks - before.ranks;
  if (all.jobs == 0) usage_.erase(entry.record.submitter);
}

size_t JobIndex::RanksOf(const JobEntry& entry) {
  size_t ranks = 0;
  for (const AttemptRecord& attempt : entry.record.attempts) ranks += attempt.ranks.size();
  return ranks;
}

JobEntry* JobIndex::FindByRequest(const std::string& submitter, const std::string& request_id) {
  if (request_id.empty()) return nullptr;
  const auto it = by_request_.find({submitter, request_id});
  return it == by_request_.end() ? nullptr : it->second;
}

const std::vector<AttemptNodeRef>& JobIndex::OnNode(const NodeId& node) const {
  static const std::vector<AttemptNodeRef> kNone;
  const auto it = on_node_.find(node);
  return it == on_node_.end() ? kNone : it->second;
}

std::optional<uint32_t> JobIndex::NodeIndexOf(const AttemptRecord& attempt, const NodeId& node) {
  for (uint32_t i = 0; i < attempt.nodes.size(); ++i) {
    if (attempt.nodes[i].node == node) return i;
  }
  return std::nullopt;
}

void JobIndex::DropRef(const NodeId& node, const JobEntry& entry, uint32_t attempt) {
  const auto it = on_node_.find(node);
  if (it == on_node_.end()) return;
  std::erase_if(it->second, [&](const AttemptNodeRef& ref) {
    return ref.job == &entry && ref.attempt == attempt;
  });
  if (it->second.empty()) on_node_.erase(it);
}

void JobIndex::SetWake(JobEntry& entry, std::optional<TimePoint> wake) {
  if (entry.wake == wake) return;
  if (entry.wake.has_value()) wakes_.erase({*entry.wake, entry.sequence});
  entry.wake = wake;
  if (wake.has_value()) wakes_.insert({*wake, entry.sequence});
}

std::optional<TimePoint> JobIndex::NextWake() const {
  if (wakes_.empty()) return std::nullopt;
  return wakes_.begin()->first;
}

std::vector<JobEntry*> JobIndex::Due(TimePoint now) const {
  std::vector<JobEntry*> due;
  for (const auto& [time, sequence] : wakes_) {
    if (time > now) break;
    due.push_back(by_sequence_.at(sequence));
  }
  return due;
}

}  // namespace muster
