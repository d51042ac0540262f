// The command line of `coordinator spawn`: every flag of gaudi_spawn.py, the flags of the deepspeed
// launcher, and ours. Pure. What stands behind the script is never looked at: it is the script's.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/config/diagnostics.h"
#include "coordinator/cli/run_flags.h"

namespace muster {

struct SpawnFlags {
  RunFlags run;
  // What to start: a script, with `module` a module, with `no_python` a program.
  std::string target;
  // What follows it, byte for byte.
  std::vector<std::string> args;
  bool module = false;
  bool no_python = false;
  // Insert `--local_rank=N` behind the script.
  bool local_rank = false;
  bool use_deepspeed = false;
  bool use_mpi = false;
  // Ranks in all, as the user expects.
  std::optional<int> world_size;
  // `cores` when the user asked for binding; empty: not asked for.
  std::string bind;
  // True when help was asked for; nothing else is set then.
  bool help = false;
};

// Reads the arguments behind `spawn`. INVALID_ARGUMENT carries every problem, one per line, each
// with what to use instead.
absl::StatusOr<SpawnFlags> ParseSpawnFlags(std::span<const std::string> arguments);

// The text of `spawn --help`.
std::string SpawnHelp();

}  // namespace muster
