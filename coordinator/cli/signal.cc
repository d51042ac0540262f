#include <fmt/format.h>

#include "common/base/annotate.h"
#include "common/base/signal_names.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/command_line.h"
#include "coordinator/cli/exit_status.h"
#include "coordinator/cli/names.h"
#include "coordinator/cli/place.h"

namespace muster {

int RunSignal(Arguments arguments, Reporter& reporter) {
  std::string job_id;
  std::string name;
  std::string server;
  std::vector<uint32_t> ranks;
  Flags flags("signal JOB SIGNAL [flags]",
              "Sends a signal to the rank processes of a running job, not to what they started.");
  flags.Positional("JOB", &job_id);
  flags.Positional("SIGNAL", &name);
  flags.Value("rank", "LIST", SetRanks(&ranks), "only to these ranks, as 0-7,9");
  AddServerFlag(flags, &server);
  if (const std::optional<int> over = ParseOrReport(flags, arguments, reporter)) return *over;
  const std::optional<int> signal = ParseSignal(name);
  if (!signal) {
    reporter.Say(fmt::format("expected a signal such as SIGUSR1, USR1 or 10, got '{}'", name));
    return kExitUsage;
  }
  absl::StatusOr<Place> place = FindLiveJob(server, job_id);
  if (!place.ok()) return ReportError(place.status(), reporter);
  v1::SignalJobRequest request;
  request.set_job_id(job_id);
  request.set_signal(*signal);
  request.mutable_ranks()->Add(ranks.begin(), ranks.end());
  const absl::StatusOr<v1::SignalJobResponse> sent = place->client->SignalJob(request);
  if (!sent.ok()) return ReportError(sent.status(), reporter);
  reporter.Say(
      fmt::format("{} was passed to {}", SignalName(*signal), Count(sent->nodes(), "node")));
  return 0;
}

}  // namespace muster
