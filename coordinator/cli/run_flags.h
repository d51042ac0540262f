// Flags that `submit` and `spawn` share: how to run, and where. Values and their declaration;
// parsing is coordinator/cli/flags.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "coordinator/cli/flags.h"
#include "coordinator/spec/env_names.h"

namespace muster {

// Which hosts, and how much of them. Unset and empty: as the job file says.
struct HostFlags {
  std::optional<std::string> hostfile;
  // Hosts in the grammar of a hostfile line, separated by commas.
  std::optional<std::string> hosts;
  // The hosts of the Slurm allocation that the command runs in.
  bool from_slurm = false;
  std::string include;
  std::string exclude;
  std::optional<int> num_nodes;
  std::optional<int> slots_per_node;
};

// How to run.
struct RunFlags {
  bool local = false;
  // Without any coordinator to go to: run as with `local`.
  bool local_without_server = false;
  // With `local`: the simulated node, or a folder with one tree per node; empty: MUSTER_SYSROOT.
  std::string sysroot;
  // Address of the coordinator; empty: MUSTER_SERVER and so on.
  std::string server;
  bool dry_run = false;
  bool detach = false;
  bool quiet = false;
  // `debug`, `info`, `warning` or `error`; empty: not given.
  std::string log_level;
  // `text` or `json`.
  std::string output = "text";
  // Folder for the logs of ranks, as typed; empty: as the job file says.
  std::string log_dir;

  std::string name;
  std::optional<Duration> grace;
  // All nodes present and prepared within this time, or nothing starts.
  std::optional<Duration> start_timeout;
  std::optional<Duration> time_limit;
  // For cards that somebody still holds.
  std::optional<Duration> device_wait;
  // `auto`, `gaudi` or `none`; empty: as the job file says.
  std::string devices;
  std::string master_addr;
  std::optional<uint32_t> master_port;
  std::string cwd;
  // Image that ranks run in; empty: as the job file says.
  std::string container;
  std::string python;
  // `NAME=VALUE`, or `NAME` for the value in this shell. In order.
  std::vector<std::string> env;
  std::vector<std::string> env_files;
  std::vector<ForwardRule> forward_env;

  HostFlags hosts;
  // What the user should know about flags that were given, one line each.
  std::vector<std::string> warnings;
};

// Declares them. `out` must outlive `flags`.
void AddRunFlags(Flags& flags, RunFlags& out);

// Setters for Flags::Value that other commands can use too.
Flags::Setter SetDuration(std::optional<Duration>* out);
// A whole number within [min, max].
Flags::Setter SetInt(std::optional<int>* out, int min, int max);

// Where agents of --local look for cards: the flag, else MUSTER_SYSROOT, absolute because agents
// run elsewhere; empty: on this machine. `local`: whether agents are started here; when not, the
// flag is refused and the variable, which is an agent's, does not count. INVALID_ARGUMENT: it is no
// folder that can be looked into. Reads the environment and the file system.
absl::StatusOr<std::string> SysrootOf(const RunFlags& flags, bool local);

}  // namespace muster
