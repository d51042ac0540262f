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

// Whose defaults count. The flags are the same in all.
enum class SpawnStyle {
  kSpawn,
  // As gaudi_spawn.py: one rank, or --world_size; without --hostfile on this machine.
  kGaudiSpawn,
  // As deepspeed: --local_rank=N behind the script; without --hostfile the hosts of /job/hostfile,
  // else every slot of this machine; the current folder in front of PYTHONPATH.
  kDeepspeed,
};

struct SpawnFlags {
  RunFlags run;
  SpawnStyle style = SpawnStyle::kSpawn;
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
  // `numa`, `cores` or `none`; empty: not asked for.
  std::string bind;
  // As ParseCoreList returns it; empty: not asked for.
  std::string bind_core_list;
  // `VENV/bin/activate` of the nodes, as typed; empty: none.
  std::string venv_script;
  // Interpreter where neither --python nor a virtual environment says one; empty: the node's.
  std::string default_python;
  // Tell others the id of this process, see pid_file.h.
  bool save_pid = false;
  // Hostfile of kDeepspeed that may be missing.
  std::string default_hostfile = "/job/hostfile";
  // True when help was asked for; nothing else is set then.
  bool help = false;
};

// Reads the arguments behind `spawn`. INVALID_ARGUMENT carries every problem, one per line, each
// with what to use instead.
absl::StatusOr<SpawnFlags> ParseSpawnFlags(std::span<const std::string> arguments,
                                           SpawnStyle style = SpawnStyle::kSpawn);

// The text of `spawn --help`, or of the program that `style` stands for.
std::string SpawnHelp(SpawnStyle style = SpawnStyle::kSpawn);

}  // namespace muster
