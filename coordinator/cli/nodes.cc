#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "coordinator/cli/command.h"
#include "coordinator/cli/command_line.h"
#include "coordinator/cli/exit_status.h"
#include "coordinator/cli/job_json.h"
#include "coordinator/cli/node_view.h"
#include "coordinator/cli/place.h"
#include "coordinator/cli/render.h"

namespace muster {

int RunNodes(Arguments arguments, Reporter& reporter) {
  std::string what;
  std::string name;
  std::string server;
  bool json = false;
  Flags flags("nodes [list | show NODE] [flags]",
              "Lists the nodes that the coordinator has heard of, with their slots and jobs, or "
              "shows one with its cards.");
  flags.Positional("list|show", &what, false);
  flags.Positional("NODE", &name, false);
  AddOutputFlag(flags, &json);
  AddServerFlag(flags, &server);
  if (const std::optional<int> over = ParseOrReport(flags, arguments, reporter)) return *over;
  const bool one = what == "show";
  if ((!what.empty() && what != "list" && !one) || one == name.empty()) {
    reporter.Say(one ? "nodes show: which node?"
                     : fmt::format("expected `nodes list` or `nodes show NODE`, got `nodes {}`",
                                   name.empty() ? what : what + " " + name));
    return kExitUsage;
  }
  absl::StatusOr<Place> place = FindCoordinator(server);
  if (!place.ok()) return ReportError(place.status(), reporter);
  absl::StatusOr<v1::ListNodesResponse> nodes = place->client->ListNodes();
  if (!nodes.ok()) return ReportError(nodes.status(), reporter);
  if (one) {
    auto& all = *nodes->mutable_nodes();
    all.erase(std::remove_if(all.begin(), all.end(),
                             [&](const v1::Node& node) { return node.node_id() != name; }),
              all.end());
    if (all.empty()) {
      reporter.Say(fmt::format("there is no node {}", name));
      return kExitUsage;
    }
    if (!json) return PrintResult(RenderNode(all.Get(0), std::time(nullptr)), reporter);
  }
  return PrintResult(json ? NodesToJson(*nodes) : RenderNodes(*nodes, std::time(nullptr)),
                     reporter);
}

}  // namespace muster
