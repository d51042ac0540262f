// A local job that has ended, as it was submitted and placed, from the folder that its run left.
// Blocks; any thread.
#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "coordinator/cli/explain_view.h"
#include "coordinator/core/job_record.h"
#include "coordinator/daemon/local_jobs.h"
#include "muster/v1/job.pb.h"

namespace muster {

struct KeptJob {
  v1::JobSpec spec;
  // Of the newest attempt; of a job that never found its nodes, what is known without them. As
  // PlanDetail::kLayout.
  v1::Plan plan;
  StartedJob started;
};

// FAILED_PRECONDITION: it still runs. DATA_LOSS: its store is damaged.
absl::StatusOr<KeptJob> ReadKeptJob(const LocalJob& job);

// The same from what is known of a job, which was submitted.
absl::StatusOr<KeptJob> DescribeJob(const std::string& job_id, const JobRecord& record);

}  // namespace muster
