#include "coordinator/core/watch_hub.h"

#include "coordinator/core/job_view.h"

namespace muster {

WatchHandle WatchHub::Add(JobEntry& entry, JobWatcher* watcher) {
  const WatchHandle handle{++last_handle_};
  watches_[handle] = Watch{.entry = &entry, .watcher = watcher};
  by_job_[&entry].push_back(handle);
  ++entry.watchers;
  return handle;
}

void WatchHub::Remove(WatchHandle handle) {
  const auto it = watches_.find(handle);
  if (it == watches_.end()) return;
  JobEntry* entry = it->second.entry;
  --entry->watchers;
  std::vector<WatchHandle>& handles = by_job_[entry];
  std::erase(handles, handle);
  if (handles.empty()) by_job_.erase(entry);
  watches_.erase(it);
}

std::optional<JobUpdate> WatchHub::Take(WatchHandle handle) {
  const auto it = watches_.find(handle);
  if (it == watches_.end()) return std::nullopt;
  Watch& watch = it->second;
  if (watch.entry->in_flight) {
    watch.notified = false;  // Told again once it is stored.
    return std::nullopt;
  }
  watch.notified = false;
  if (!watch.HasNews()) return std::nullopt;
  JobUpdate update;
  JobViewScope scope;
  if (!watch.first) {
    scope.since_revision = watch.revision;
    scope.since_volatile_revision = watch.volatile_revision;
  }
  update.job = ViewJob(*watch.entry, nodes_, scope);
  watch.first = false;
  watch.revision = watch.entry->record.revision;
  watch.volatile_revision = watch.entry->volatile_revision;
  if (watch.entry->record.terminal()) {
    update.last = true;
    Remove(handle);
  }
  return update;
}

void WatchHub::Notify(JobEntry& entry) {
  const auto it = by_job_.find(&entry);
  if (it == by_job_.end()) return;
  // A copy: a watcher may take its update, and so end its watch, from inside the call.
  const std::vector<WatchHandle> handles = it->second;
  for (WatchHandle handle : handles) {
    const auto watch = watches_.find(handle);
    if (watch == watches_.end() || watch->second.notified || !watch->second.HasNews()) continue;
    watch->second.notified = true;
    watch->second.watcher->OnUpdateReady(handle);
  }
}

}  // namespace muster
