#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "coordinator/cli/command.h"
#include "coordinator/cli/command_line.h"
#include "coordinator/cli/exit_status.h"
#include "coordinator/cli/own_certificate.h"

namespace muster {
namespace {

constexpr std::array<Command, 26> kCommands = {{
    {"submit", "run the job of a job.yaml and follow it", RunSubmit, true},
    {"spawn", "run a script on every slot of every host, from flags alone", RunSpawn, true},
    {"deepspeed", "", RunDeepspeed, true, "off", true},
    {"gaudi_spawn.py", "", RunGaudiSpawn, true, "off", true},
    {"list", "list jobs, the newest first", RunList},
    {"status", "show one job: state, nodes, ranks, how they ended", RunStatus},
    {"watch", "print what changes about a job until it ends", RunWatch},
    {"wait", "wait for a job and end with its status", RunWait},
    {"attach", "follow a job that runs; Ctrl-C leaves it running", RunAttach, true},
    {"logs", "print the output of a job, past or live", RunLogs},
    {"cancel", "stop a job", RunCancel},
    {"signal", "send a signal to the ranks of a job", RunSignal},
    {"nodes", "list the nodes", RunNodes},
    {"check", "check nodes as before the start of a job, without one", RunCheck},
    {"explain", "show every environment variable of a rank and who set it", RunExplain},
    {"serve", "run the coordinator as a daemon", RunServe, true, "info"},
    {"init", "make a cluster whose nodes join over the network", RunInit},
    {"token", "make, list and delete tokens with which nodes join", RunToken},
    {"user", "add, list and remove people who submit jobs over the network", RunUser},
    {"join", "become a user of a cluster, with a token", RunJoin},
    {"members", "list who belongs to the cluster", RunMembers},
    {"ca", "show or replace the authority of the cluster", RunCa},
    {"revoke", "shut a member out", RunRevoke},
    {"compat", "put programs called deepspeed and gaudi_spawn.py into a folder", RunCompat},
    {"doctor", "say what does not work, and what to do about it", RunDoctor},
    {kRenewCertificate, "", RunRenewCertificate, false, "off", true},
}};

constexpr std::string_view kExitStatuses = R"(
exit status of submit, spawn, attach and wait:
  0         every rank ended with 0
  1-255     code of the rank that failed first; 128+n when signal n killed it
  130, 143, 129   ended by your SIGINT, SIGTERM, SIGHUP
  2         bad usage or input
  120       not started: a node is missing, or a check or prepare failed
  121       a node or its ranks were lost
  122       no coordinator
  124       time limit, or a rank had stalled
  125       a mistake in Muster
  126, 127  the program could not be executed, was not found
)";

}  // namespace

std::span<const Command> Commands() { return kCommands; }

int RunHelp(Arguments arguments, Reporter& reporter) {
  if (!arguments.empty()) {
    for (const Command& command : kCommands) {
      if (command.name != arguments[0]) continue;
      const std::vector<std::string> help = {"--help"};
      return command.run(help, reporter);
    }
    reporter.Say(fmt::format("unknown command '{}'", arguments[0]));
    return kExitUsage;
  }
  std::string text =
      "usage: coordinator COMMAND [flags] [arguments]\n"
      "\n"
      "Starts every rank of a multi-node training job without SSH and hears back from all of "
      "them.\n"
      "\n"
      "  coordinator submit --local job.yaml                         on this machine alone\n"
      "  coordinator spawn --hostfile hosts train.py --epochs 3      as gaudi_spawn.py and "
      "deepspeed\n"
      "\n"
      "commands:\n";
  for (const Command& command : kCommands) {
    if (command.hidden) continue;
    text += fmt::format("  {:<9} {}\n", command.name, command.summary);
  }
  text += fmt::format("  {:<9} {}\n", "help", "help on a command, as COMMAND --help");
  text += "\nflags: --version, --help\n";
  text += kExitStatuses;
  return PrintResult(text, reporter);
}

}  // namespace muster
