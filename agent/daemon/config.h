// What the agent program was asked to do: its flags, its environment, its configuration file, and
// what follows from them.
// Read once in main; values only.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/daemon/join.h"
#include "common/base/ids.h"

namespace muster {

struct AgentConfig {
  // Empty only where the certificate of a member says it (TakeMembership).
  NodeId node_id;
  // `unix:/path`, or HOST:PORT for members of a cluster; empty: where the credentials say.
  std::string coordinator;
  // Absolute. Empty: one of its own that is made and removed by main, for an agent that joins for
  // one job.
  std::string state_directory;
  // Joins first, unless the node has joined before.
  std::optional<JoinConfig> first_join;
  // Ends with its coordinator, and takes its ranks along.
  bool ephemeral = false;
  // File of the users that ranks may run as, see agent/node/allow_list.h; and more of them by name.
  std::string allow_file;
  std::vector<std::string> allowed_users;
  // Slots where there are no cards.
  uint32_t slots = 8;
  // Whether cards are the slots: `auto` (where there are some), `gaudi` or `none`.
  std::string devices = "auto";
  // A simulated node, put in front of the paths of cards; empty: this machine.
  std::string sysroot;
  // The slice of systemd that jobs get scopes in, when systemd runs the agent as root; empty: they
  // get none.
  std::string job_slice;
  // What it logs unless MUSTER_LOG says otherwise.
  std::string log_level = "info";
  // Numeric; empty: those of the network interfaces.
  std::vector<std::string> addresses;
  std::string shim_binary;
  // Value of MUSTER_LEASE_DIR; empty: the default.
  std::string lease_directory;
  // Home directory of the user, for `~/` in environment files.
  std::string home;
  // The environment as it was found, `NAME=value`. Ranks inherit it.
  std::vector<std::string> environ;
  // Test hook: value of FAKE_UNKILLABLE_RANK.
  std::optional<uint32_t> fake_unkillable_rank;
  // The oom_score_adj that ranks get; nothing: they inherit the agent's. Set by main.
  std::optional<int> rank_oom_score_adj;
};

struct CommandLine {
  // Set: print it and exit with `exit_code`; `error` tells whether to stderr.
  std::optional<std::string> text;
  bool error = false;
  int exit_code = 0;
  AgentConfig config;
  // Set: `agent join`, which needs nothing of `config`.
  std::optional<JoinConfig> join;
  // `agent doctor`, of an agent with `config`.
  bool doctor = false;
  bool json = false;
};

// Parses `agent run ...`, `agent join ...` or `agent doctor ...`, looks at `environment`, which
// holds the environment of the process, and reads the configuration file. Flags win over variables,
// those over the file.
CommandLine ParseCommandLine(int argc, const char* const* argv, const char* const* environment);

// The value of `name` among `NAME=value` strings.
std::optional<std::string> FindVariable(const std::vector<std::string>& environ,
                                        const std::string& name);

}  // namespace muster
