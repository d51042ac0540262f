// Keeps JobTimes (job_policy.h), the steady-clock side of a job, in step with its record. Pure.
#pragma once

#include "common/base/clock.h"
#include "coordinator/core/job_policy.h"
#include "coordinator/core/job_record.h"

namespace muster {

// Notes what became true with the latest events, at `now`. Idempotent.
void UpdateTimes(JobTimes& times, const JobRecord& job, TimePoint now);

// Times of a job that was loaded from the store: how long ago things began is taken from wall-clock
// stamps, never more than plausible, and agents get `patience` before a start times out.
JobTimes TimesAfterLoad(const JobRecord& job, TimePoint now, WallTime wall_now, Duration patience);

}  // namespace muster
