#include <fmt/format.h>

#include <ctime>

#include "coordinator/cli/command.h"
#include "coordinator/cli/command_line.h"
#include "coordinator/cli/exit_status.h"
#include "coordinator/cli/job_json.h"
#include "coordinator/cli/place.h"
#include "coordinator/cli/render.h"

namespace muster {

int RunNodes(Arguments arguments, Reporter& reporter) {
  std::string what;
  std::string server;
  bool json = false;
  Flags flags("nodes [list] [flags]",
              "Lists the nodes that the coordinator has heard of, with their slots and jobs.");
  flags.Positional("list", &what, false);
  AddOutputFlag(flags, &json);
  AddServerFlag(flags, &server);
  if (const std::optional<int> over = ParseOrReport(flags, arguments, reporter)) return *over;
  if (!what.empty() && what != "list") {
    reporter.Say(fmt::format("expected `nodes list`, got `nodes {}`", what));
    return kExitUsage;
  }
  absl::StatusOr<Place> place = FindCoordinator(server);
  if (!place.ok()) return ReportError(place.status(), reporter);
  const absl::StatusOr<v1::ListNodesResponse> nodes = place->client->ListNodes();
  if (!nodes.ok()) return ReportError(nodes.status(), reporter);
  return PrintResult(json ? NodesToJson(*nodes) : RenderNodes(*nodes, std::time(nullptr)),
                     reporter);
}

}  // namespace muster
