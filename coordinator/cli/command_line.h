// What the commands have in common: usage errors, help, printing results. Main thread.
#pragma once

#include <absl/status/status.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/cli/command.h"
#include "coordinator/cli/flags.h"

namespace muster {

// Parses the arguments of a command. A value: the command is to end with it, because help was
// printed or the problems were reported.
std::optional<int> ParseOrReport(Flags& flags, Arguments arguments, Reporter& reporter);

// One of the words that may follow a command, as `list` in `token list`.
struct Subcommand {
  std::string_view name;
  int (*run)(Arguments arguments, Reporter& reporter);
};
// Runs the one that the first argument names, with the others. `--help` prints `usage: coordinator
// COMMAND a|b|c [flags]` and `about`; any other word is a usage error that says what there is.
int RunSubcommand(std::string_view command, std::string_view about,
                  std::span<const Subcommand> subcommands, Arguments arguments, Reporter& reporter);

// Says every problem of `status`, one per line, and returns the exit status for it.
int ReportError(const absl::Status& status, Reporter& reporter);

// Flags that several commands have.
void AddServerFlag(Flags& flags, std::string* server);
// Takes `text` or `json`.
void AddOutputFlag(Flags& flags, bool* json);

// Of the daemon, and of what must find its state.
void AddConfigFlag(Flags& flags, std::optional<std::string>* file);

// Takes ranks as `0-7,9`.
Flags::Setter SetRanks(std::vector<uint32_t>* out);

// Writes a result to stdout; 0, or `kExitBug` with a message when it cannot be written.
int PrintResult(std::string_view text, Reporter& reporter);

}  // namespace muster
