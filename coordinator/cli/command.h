// The commands of `coordinator`: one function each, in a file of its own name. A command gets the
// arguments behind its name and returns the exit status. It runs on the main thread, alone.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "coordinator/cli/reporter.h"

namespace muster {

using Arguments = std::span<const std::string>;

struct Command {
  std::string_view name;
  std::string_view summary;
  int (*run)(Arguments arguments, Reporter& reporter);
  // It follows a job, so signals are its own business; the others end by them.
  bool takes_signals = false;
  // What it logs to stderr unless MUSTER_LOG says otherwise.
  const char* log_level = "off";
  // In no list: other commands start it.
  bool hidden = false;
};

// In the order in which help lists them.
std::span<const Command> Commands();

int RunSubmit(Arguments arguments, Reporter& reporter);
int RunSpawn(Arguments arguments, Reporter& reporter);
// As `spawn`, with the defaults of the program of that name.
int RunDeepspeed(Arguments arguments, Reporter& reporter);
int RunGaudiSpawn(Arguments arguments, Reporter& reporter);
int RunCompat(Arguments arguments, Reporter& reporter);
int RunLogs(Arguments arguments, Reporter& reporter);
int RunStatus(Arguments arguments, Reporter& reporter);
int RunList(Arguments arguments, Reporter& reporter);
int RunWatch(Arguments arguments, Reporter& reporter);
int RunWait(Arguments arguments, Reporter& reporter);
int RunAttach(Arguments arguments, Reporter& reporter);
int RunCancel(Arguments arguments, Reporter& reporter);
int RunSignal(Arguments arguments, Reporter& reporter);
int RunNodes(Arguments arguments, Reporter& reporter);
int RunCheck(Arguments arguments, Reporter& reporter);
int RunExplain(Arguments arguments, Reporter& reporter);
int RunServe(Arguments arguments, Reporter& reporter);
int RunInit(Arguments arguments, Reporter& reporter);
int RunToken(Arguments arguments, Reporter& reporter);
int RunDoctor(Arguments arguments, Reporter& reporter);
int RunCa(Arguments arguments, Reporter& reporter);
int RunMembers(Arguments arguments, Reporter& reporter);
int RunRevoke(Arguments arguments, Reporter& reporter);
int RunUser(Arguments arguments, Reporter& reporter);
int RunJoin(Arguments arguments, Reporter& reporter);

// Help on all commands, or on the one that `arguments` name.
int RunHelp(Arguments arguments, Reporter& reporter);

}  // namespace muster
