#include "agent/daemon/flags.h"

#include <fmt/format.h>

#include "common/base/version.h"

namespace muster {
namespace {

// Flags whose values are taken from their results; see Given.
CLI::Option* Add(CLI::App& command, const std::string& name, const std::string& placeholder,
                 const std::string& help) {
  return command
      .add_option_function<std::vector<std::string>>(
          "--" + name, [](const std::vector<std::string>&) {}, help)
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->type_name(placeholder);
}

void AddCommon(CLI::App& command) {
  Add(command, "node-id", "NAME", "Name of the node (default: the host name)");
  Add(command, "state-dir", "DIR", "Directory of the agent's journal, attempts and certificate");
  Add(command, "config", "FILE",
      "Configuration file; flags win over it (default: /etc/muster/agent.yaml if it is there); "
      "empty: none");
}

}  // namespace

AgentFlags::AgentFlags()
    : app("Starts and supervises the ranks of training jobs on this node, as its coordinator says.",
          "agent") {
  app.require_subcommand(1);
  app.set_version_flag("--version", fmt::format("agent {}", kVersion));

  run = app.add_subcommand("run", "Serve this node");
  AddCommon(*run);
  Add(*run, "coordinator", "ADDRESS",
      "Where the coordinator listens: HOST:PORT, or unix:/path on its own machine (default: as "
      "told when the node joined)");
  Add(*run, "slots", "N", "Slots to offer without cards (default: MUSTER_SLOTS, else 8)");
  Add(*run, "devices", "auto|gaudi|none",
      "Whether Gaudi cards are the slots: where there are some, always, or never (default: auto)");
  Add(*run, "sysroot", "DIR",
      "Look for cards below DIR, a simulated node (default: MUSTER_SYSROOT, else this machine)");
  Add(*run, "address", "IP", "Address to report; repeat for more (default: all)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  Add(*run, "allow-users", "FILE",
      "File of the users that jobs may run as here, when this agent is root and serves a cluster "
      "(default: /etc/muster/allow_users)");
  Add(*run, "allow-user", "NAME", "One more user that jobs may run as here; repeat for more")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  run->add_flag("--allow-root", allow_root,
                "As --allow-user root: an admin of the cluster is root here");
  run->add_option(
         "--join", joined.address,
         "HOST:PORT of a coordinator to join first, with --token-file, unless this node has "
         "joined before")
      ->type_name("ADDRESS");
  run->add_option("--token-file", joined.token_file, "File that holds the token of --join")
      ->type_name("FILE");
  run->add_flag("--ephemeral", ephemeral, "End with the coordinator, and take the ranks along");
  run->add_flag("--check-config", check_config,
                "Print every setting that holds and who says so, and start nothing");

  join = app.add_subcommand("join", "Make this machine a node of a cluster");
  AddCommon(*join);
  join->add_option("ADDRESS", joined.address, "HOST:PORT of the coordinator")->required();
  CLI::Option* token =
      join->add_option("TOKEN", joined.token,
                       "From `coordinator token create`; others can see it in the list of "
                       "processes: --token-file is better on shared machines");
  join->add_option("--token-file", joined.token_file,
                   "File that holds the token; -: standard input")
      ->excludes(token)
      ->type_name("FILE");

  doctor = app.add_subcommand(
      "doctor", "Say what keeps this node from serving its cluster, and what to do about it");
  AddCommon(*doctor);
  Add(*doctor, "coordinator", "ADDRESS", "The same as of `agent run`");
  Add(*doctor, "allow-users", "FILE", "The same as of `agent run`");
  doctor->add_option("-o,--output", output, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->type_name("FORMAT");
}

std::vector<std::string> AgentFlags::Given(const std::string& flag) const {
  for (const CLI::App* command : {run, join, doctor}) {
    if (!command->parsed()) continue;
    const CLI::Option* option = command->get_option_no_throw("--" + flag);
    if (option != nullptr && option->count() > 0) return option->reduced_results();
  }
  return {};
}

}  // namespace muster
