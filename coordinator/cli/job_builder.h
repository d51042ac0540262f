// Makes a job out of what the user wrote: job.yaml or flags, hostfile, env files, the shell's
// variables. Reads files, so it may block; touches nothing else. For one thread at a time.
//
// Layers of the environment, low to high: forwarded variables, ~/.deepspeed_env, ./.deepspeed_env,
// env_files, env, node_env. Files that this machine reads (hostfile, env files) and the folders
// `cwd` and `log_dir` are relative to the folder of job.yaml, or to the current folder for flags.
// What the nodes open (script, interpreter) is relative to the job's working directory.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "coordinator/cli/client_env.h"
#include "coordinator/cli/run_flags.h"
#include "coordinator/cli/spawn_flags.h"
#include "muster/v1/job.pb.h"

namespace muster {

struct BuiltJob {
  v1::JobSpec spec;
  // Folder for the logs of ranks, absolute; empty: none was asked for.
  std::string log_dir;
  // One line each; most begin with FILE:LINE.
  std::vector<std::string> warnings;
  // What was done without being asked for: env files read, variables forwarded. One line each.
  std::vector<std::string> notes;
  // True when nobody named a host: the job is for this machine.
  bool this_machine = false;
};

// Reads a job file; what `flags` say wins over it. INVALID_ARGUMENT carries every problem of every
// file, one per line, each with FILE:LINE.
absl::StatusOr<BuiltJob> BuildFromYaml(const std::string& path, const RunFlags& flags,
                                       const ClientEnv& client);

// The same for `spawn`. Without a hostfile the job has one host, `localhost`.
absl::StatusOr<BuiltJob> BuildFromFlags(const SpawnFlags& flags, const ClientEnv& client);

}  // namespace muster
