// `agent join`: makes this machine, or this user's agent on it, a node of a cluster. Blocks.
#pragma once

#include <absl/status/status.h>
#include <signal.h>

#include <chrono>
#include <optional>
#include <string>

#include "common/base/ids.h"

namespace muster {

struct JoinConfig {
  // HOST:PORT of the coordinator.
  std::string address;
  std::string token;
  // Where the token is read from instead; "-": standard input.
  std::string token_file;
  // Name of the node.
  NodeId node_id;
  // Of the agent; absolute.
  std::string state_directory;
};

// Where an agent with this state directory keeps what it has of its cluster.
std::string MemberDirectoryOf(const std::string& state_directory);
// The audit log of the node.
std::string AuditPathOf(const std::string& state_directory);

// What an agent that is to serve over the network needs to know of its membership: checks that it
// has joined, fills in the name of its node, and puts away the journal of another membership (a
// cluster that was made anew). With the state directory locked. FAILED_PRECONDITION: it has not
// joined, or it is another node than `node_id`, where that is not empty.
absl::Status TakeMembership(const std::string& state_directory, NodeId& node_id);

// For `agent run --join`: joins unless the node has joined before, and tries until the coordinator
// answers, or for `patience`. CANCELLED: one of the signals `ending`, which are blocked, has come.
// The other errors are those of Join.
absl::Status JoinUnlessMember(const JoinConfig& config, const sigset_t& ending,
                              std::optional<std::chrono::seconds> patience);

// Returns the exit status of the program: 0, 1 (the coordinator is out of reach or refuses), 2 (bad
// input). Says on stdout or stderr what happened.
int RunJoin(const JoinConfig& config);

}  // namespace muster
