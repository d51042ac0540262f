#include "coordinator/cli/kept_job.h"

#include <fmt/format.h>

#include <utility>

#include "common/base/annotate.h"
#include "coordinator/core/job_state.h"
#include "coordinator/core/scheduler.h"
#include "coordinator/plan/plan_job.h"
#include "coordinator/store/directory_lock.h"
#include "coordinator/store/sqlite_store.h"

namespace muster {

absl::StatusOr<KeptJob> ReadKeptJob(const LocalJob& job) {
  if (!job.address.empty()) {
    return absl::FailedPreconditionError(fmt::format(
        "job {} still runs: it can be explained once it has ended, and its job file at any time",
        job.job_id));
  }
  // Keeps the folder from being deleted.
  const absl::StatusOr<DirectoryLock> lock = DirectoryLock::AcquireShared(job.folder);
  if (!lock.ok()) return Annotate(lock.status(), fmt::format("job {}", job.job_id));
  const absl::StatusOr<StoredState> state = SqliteStore::Peek(job.folder + "/store.db");
  if (!state.ok()) return Annotate(state.status(), fmt::format("job {}", job.job_id));
  JobRecord record;
  for (const StoredEvent& event : state->events) {
    if (event.job.value() == job.job_id) record = Apply(std::move(record), event.event);
  }
  if (record.spec == nullptr) {
    return absl::NotFoundError(fmt::format("job {} is not in {}", job.job_id, job.folder));
  }
  return DescribeJob(job.job_id, record);
}

absl::StatusOr<KeptJob> DescribeJob(const std::string& job_id, const JobRecord& record) {
  KeptJob kept;
  kept.spec = *record.spec;
  kept.started.job_id = job_id;
  const AttemptRecord* attempt = record.attempts.empty() ? nullptr : &record.attempts.back();
  absl::StatusOr<v1::Plan> plan = attempt != nullptr ? ReplanAttempt(record, *attempt)
                                                     : PlanJob(kept.spec, {}, PlanDetail::kLayout);
  if (!plan.ok()) return Annotate(plan.status(), fmt::format("job {}", job_id));
  kept.plan = *std::move(plan);
  if (attempt != nullptr) {
    kept.started.attempt = attempt->number;
    kept.started.rendezvous = attempt->rendezvous;
    for (const NodeProgress& node : attempt->nodes) {
      for (const v1::NodeTrait& trait : node.report.traits()) {
        std::optional<FilledVariable> filled = ParseFilledTrait(trait.name(), trait.value());
        if (filled) kept.started.filled[node.host].push_back(*std::move(filled));
      }
    }
    for (size_t rank = 0; rank < attempt->ranks.size(); ++rank) {
      const std::optional<v1::RankPlacement>& placement = attempt->ranks[rank].placement;
      if (placement) kept.started.placements.emplace(static_cast<uint32_t>(rank), *placement);
    }
  }
  return kept;
}

}  // namespace muster
