// Commands that ask the coordinator one thing and end with what comes of it. Blocks; main thread.
#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "coordinator/cli/command_line.h"
#include "coordinator/cli/place.h"

namespace muster {

// Prints what `render(answer)` makes of what `call(client)` returns, an absl::StatusOr. The exit
// status of the command; errors of finding and of asking are reported.
template <typename Call, typename Render>
int AskCoordinator(const std::string& server, Reporter& reporter, Call call, Render render) {
  absl::StatusOr<Place> place = FindCoordinator(server);
  if (!place.ok()) return ReportError(place.status(), reporter);
  const auto answer = call(*place->client);
  if (!answer.ok()) return ReportError(answer.status(), reporter);
  return PrintResult(render(*answer), reporter);
}

}  // namespace muster
