#include "coordinator/core/job_times.h"

#include <algorithm>

namespace muster {
namespace {

// `now` minus the age of `stamp`; stamps of the future have no age.
TimePoint Ago(WallTime stamp, TimePoint now, WallTime wall_now) {
  if (stamp >= wall_now) return now;
  return now - std::chrono::duration_cast<Duration>(wall_now - stamp);
}

}  // namespace

void UpdateTimes(JobTimes& times, const JobRecord& job, TimePoint now) {
  if (job.attempts.size() != times.attempts_seen) {
    times.attempts_seen = job.attempts.size();
    times.prepare_failed_since.reset();
    times.probing_since.reset();
    times.running_since.reset();
    times.stopping_since.reset();
    times.orders_seen = 0;
  }
  if (job.state == v1::Job::PENDING && !times.waiting) times.waiting_since = now;
  times.waiting = job.state == v1::Job::PENDING;
  const AttemptRecord* attempt = job.live_attempt();
  if (attempt == nullptr) return;
  if (attempt->prepare_failed_nodes > 0 && !times.prepare_failed_since.has_value()) {
    times.prepare_failed_since = now;
  }
  if (attempt->probe.has_value() && attempt->prepared_nodes == attempt->nodes.size() &&
      !times.probing_since.has_value()) {
    times.probing_since = now;
  }
  if (attempt->gang_start_time.has_value() && !times.running_since.has_value()) {
    times.running_since = now;
  }
  if (attempt->stop.has_value() && attempt->stop->orders != times.orders_seen) {
    times.orders_seen = attempt->stop->orders;
    times.stopping_since = now;
  }
}

JobTimes TimesAfterLoad(const JobRecord& job, TimePoint now, WallTime wall_now, Duration patience) {
  JobTimes times;
  UpdateTimes(times, job, now);
  times.waiting_since = Ago(job.waiting_since, now, wall_now);
  times.patience_until = now + patience;
  const AttemptRecord* attempt = job.live_attempt();
  if (attempt != nullptr && attempt->gang_start_time.has_value()) {
    times.running_since = Ago(*attempt->gang_start_time, now, wall_now);
  }
  return times;
}

}  // namespace muster
