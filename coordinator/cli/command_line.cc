#include "coordinator/cli/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>

#include "common/base/annotate.h"
#include "common/config/text.h"
#include "coordinator/cli/exit_status.h"
#include "coordinator/cli/names.h"

namespace muster {

std::optional<int> ParseOrReport(Flags& flags, Arguments arguments, Reporter& reporter) {
  const absl::Status parsed = flags.Parse(arguments);
  if (flags.help_wanted()) return PrintResult(flags.Help(), reporter);
  if (parsed.ok()) return std::nullopt;
  ReportError(parsed, reporter);
  reporter.Say("--help shows what this command takes");
  return kExitUsage;
}

int RunSubcommand(std::string_view command, std::string_view about,
                  std::span<const Subcommand> subcommands, Arguments arguments,
                  Reporter& reporter) {
  const std::string what = arguments.empty() ? "" : arguments[0];
  std::vector<std::string_view> names;
  for (const Subcommand& one : subcommands) {
    if (one.name == what) return one.run(arguments.subspan(1), reporter);
    names.push_back(one.name);
  }
  if (what == "--help" || what == "-h") {
    return PrintResult(
        fmt::format("usage: coordinator {} {} [flags]\n\n{} Each command has --help.\n", command,
                    fmt::join(names, "|"), about),
        reporter);
  }
  const std::string_view last = names.back();
  names.pop_back();
  reporter.Say(fmt::format("{}: expected {} or {}{}", command, fmt::join(names, ", "), last,
                           what.empty() ? "" : ", got " + Quoted(what)));
  return kExitUsage;
}

int ReportError(const absl::Status& status, Reporter& reporter) {
  const std::string_view message = MessageOf(status);
  reporter.Say(message.empty() ? status.ToString() : std::string(message));
  return ExitStatusOf(status);
}

void AddServerFlag(Flags& flags, std::string* server) {
  flags.Text(
      "server", "ADDRESS", server,
      "coordinator to ask, HOST:PORT or unix:/path/to/socket; default: MUSTER_SERVER, else the "
      "local job's own\nor the socket in $XDG_RUNTIME_DIR/muster or /run/muster, else the "
      "cluster joined");
}

void AddOutputFlag(Flags& flags, bool* json) {
  flags.Value(
      "output,o", "text|json",
      [json](std::string_view value) -> std::string {
        if (value != "text" && value != "json") {
          return fmt::format("expected text or json, got '{}'", value);
        }
        *json = value == "json";
        return "";
      },
      "form of the result; default text");
}

void AddConfigFlag(Flags& flags, std::optional<std::string>* file) {
  flags.Value(
      "config", "FILE",
      [file](std::string_view value) -> std::string {
        *file = std::string(value);
        return "";
      },
      "configuration file; flags win over it (default /etc/muster/coordinator.yaml if it is\n"
      "there); empty: none");
}

Flags::Setter SetRanks(std::vector<uint32_t>* out) {
  return [out](std::string_view value) -> std::string {
    absl::StatusOr<std::vector<uint32_t>> ranks = ParseRanks(value);
    if (!ranks.ok()) return std::string(MessageOf(ranks.status()));
    *out = *std::move(ranks);
    return "";
  };
}

int PrintResult(std::string_view text, Reporter& reporter) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      // The reader has seen enough, as with `| head`.
      if (errno == EPIPE) return 0;
      reporter.Say(MessageOf(ErrnoStatus(errno, "cannot write to stdout")));
      return kExitBug;
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

}  // namespace muster
