// The hosts of a Slurm allocation, as lines of a hostfile. Pure.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

namespace muster {

// `nodes`: the value of SLURM_JOB_NODELIST, as `gpu[01-03,7],login`. `tasks`: that of
// SLURM_TASKS_PER_NODE, as `8(x2),4`, the slots of the hosts in order; empty: every host has the
// slots that its node reports. INVALID_ARGUMENT names the variable and what was found in it.
absl::StatusOr<std::string> SlurmHostfile(std::string_view nodes, std::string_view tasks);

}  // namespace muster
