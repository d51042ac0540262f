// The life of a job as a table and one pure function. Effects live elsewhere (job_policy.h says
// what should happen, coordinator_core.h makes it happen). Usable from any thread.
#pragma once

#include "coordinator/core/job_record.h"
#include "muster/internal/record.pb.h"

namespace muster {

// True when a job in state `from` may move to `to`. States never repeat themselves.
bool MayMove(v1::Job::State from, v1::Job::State to);

// SUCCEEDED, FAILED, CANCELLED.
bool IsTerminal(v1::Job::State state);

// Folds one event into a job. Pure, total and deterministic. Unknown, late, repeated or
// contradictory events leave the record unchanged, its revision included.
//
// After a job has ended only facts about what is left still count: the size of a log that was
// closed late, and that a lost node is clean after all. They never change the outcome.
JobRecord Apply(JobRecord job, const internal::JobEvent& event);

}  // namespace muster
