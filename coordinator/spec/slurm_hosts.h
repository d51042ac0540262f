// The hosts of a Slurm allocation, as lines of a hostfile. Pure.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

namespace muster {

// What the environment of a batch script, or of a shell of salloc, says; empty: not set.
struct SlurmAllocation {
  // SLURM_JOB_NODELIST, as `gpu[01-03,7],login`.
  std::string_view nodes;
  // SLURM_TASKS_PER_NODE, as `8(x2),4`: of the hosts in order.
  std::string_view tasks;
  // SLURM_NTASKS: set only where somebody asked for tasks. Without it Slurm counts one task for
  // each node, or for each of its processors.
  std::string_view asked_tasks;
  // SLURM_GPUS_PER_NODE, as `8` or `gaudi:8` (--gpus-per-node).
  std::string_view gpus_per_node;
  // SLURM_GPUS, as `12` (--gpus): so many on all nodes together.
  std::string_view gpus;
  // SLURM_GPUS_ON_NODE: those of the node that the batch script runs on.
  std::string_view gpus_here;
};

// One line for each host, in Slurm's order. Its slots are its tasks where tasks were asked for;
// else the cards of a node, where that is the same number for all; else its tasks; and without any
// of them what its node reports. INVALID_ARGUMENT names the variable and what was found in it.
absl::StatusOr<std::string> SlurmHostfile(const SlurmAllocation& allocation);

}  // namespace muster
