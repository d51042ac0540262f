// Runs a job that was built from the user's input: as a dry run, on this machine alone, or through
// a coordinator. Main thread.
#pragma once

#include <absl/status/status.h>

#include "coordinator/cli/job_builder.h"
#include "coordinator/cli/reporter.h"
#include "coordinator/cli/run_flags.h"

namespace muster {

// Prints every problem as `FILE:LINE: reason` and returns the exit status.
int ReportInputErrors(const absl::Status& status, Reporter& reporter);

// Returns the exit status of the command.
int RunJob(BuiltJob built, const RunFlags& flags, Reporter& reporter);

}  // namespace muster
