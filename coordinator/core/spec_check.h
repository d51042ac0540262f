// Refuses jobs that this version cannot run as asked. Pure; usable from any thread.
#pragma once

#include <absl/status/status.h>

#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "coordinator/core/caller.h"
#include "muster/v1/job_spec.pb.h"

namespace muster {

// INVALID_ARGUMENT with every problem of the spec, one per line. `caller` submits it; no name when
// it is not known. What this version does not support is refused, never silently left out.
absl::Status CheckSpec(const v1::JobSpec& spec, const Caller& caller);

// The same for a spec without a program, which nodes are checked for: its user, environment and
// choice of checks.
absl::Status CheckChoices(const v1::JobSpec& spec, const Caller& caller);

// Things that are accepted and that the user should know: what has no effect yet (it changes how
// fast a job runs or what is checked before, not what it does), and what is asking for trouble
// where nodes hear from the coordinator every `heartbeat_interval`.
std::vector<std::string> SpecWarnings(const v1::JobSpec& spec, Duration heartbeat_interval);

}  // namespace muster
