// The command line of the agent: its commands and their flags. Made on the stack of whoever parses
// it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "agent/daemon/join.h"

namespace muster {

struct AgentFlags {
  AgentFlags();
  AgentFlags(const AgentFlags&) = delete;
  AgentFlags& operator=(const AgentFlags&) = delete;

  // What was given for a flag of a command, without dashes, such as "node-id"; empty when it
  // was not.
  std::vector<std::string> Given(const std::string& flag) const;
  bool Has(const std::string& flag) const { return !Given(flag).empty(); }

  CLI::App app;
  CLI::App* run = nullptr;
  CLI::App* join = nullptr;
  CLI::App* doctor = nullptr;
  JoinConfig joined;
  bool allow_root = false;
  bool ephemeral = false;
  bool check_config = false;
  // Of the doctor: text or json.
  std::string output = "text";
};

}  // namespace muster
