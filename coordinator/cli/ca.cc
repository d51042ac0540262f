// `coordinator ca`: the authority of the cluster.
#include <fmt/format.h>

#include <ctime>

#include "coordinator/cli/authority_view.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/command_line.h"
#include "coordinator/cli/exit_status.h"
#include "coordinator/cli/place.h"

namespace muster {
namespace {

template <typename Call>
int Run(Arguments arguments, Reporter& reporter, std::string usage, std::string about, Call call) {
  std::string server;
  bool json = false;
  Flags flags(std::move(usage), std::move(about));
  AddOutputFlag(flags, &json);
  AddServerFlag(flags, &server);
  if (const std::optional<int> over = ParseOrReport(flags, arguments, reporter)) return *over;
  absl::StatusOr<Place> place = FindCoordinator(server);
  if (!place.ok()) return ReportError(place.status(), reporter);
  const absl::StatusOr<v1::Authority> authority = call(*place->client);
  if (!authority.ok()) return ReportError(authority.status(), reporter);
  return PrintResult(json ? AuthorityToJson(*authority) : RenderAuthority(*authority), reporter);
}

}  // namespace

int RunCa(Arguments arguments, Reporter& reporter) {
  const std::string what = arguments.empty() ? "" : arguments[0];
  if (what == "show") {
    return Run(arguments.subspan(1), reporter, "ca show [flags]",
               "Shows the authority of the cluster, and how far a change of it has come.",
               [](Client& client) { return client.GetAuthority(); });
  }
  if (what == "rotate") {
    return Run(arguments.subspan(1), reporter, "ca rotate [flags]",
               "Replaces the authority of the cluster by a new one, under running jobs. The nodes "
               "learn to trust the new one, then get certificates of it, then the old one is "
               "dropped. It goes on by itself, and waits for every node whose certificate is "
               "good: `ca show` names them.",
               [](Client& client) { return client.RotateAuthority(); });
  }
  const std::string text =
      "usage: coordinator ca show|rotate [flags]\n"
      "\n"
      "The authority that signs the certificates of the cluster. Each command has --help.\n";
  if (what == "--help" || what == "-h") return PrintResult(text, reporter);
  reporter.Say(what.empty() ? "ca: expected show or rotate"
                            : fmt::format("ca: expected show or rotate, got '{}'", what));
  return kExitUsage;
}

}  // namespace muster
