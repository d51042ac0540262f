#include <ctime>

#include "coordinator/cli/command.h"
#include "coordinator/cli/command_line.h"
#include "coordinator/cli/job_json.h"
#include "coordinator/cli/place.h"
#include "coordinator/cli/render.h"

namespace muster {
namespace {

constexpr size_t kRanksShown = 64;

}  // namespace

int RunStatus(Arguments arguments, Reporter& reporter) {
  std::string job_id;
  std::string server;
  bool json = false;
  bool all = false;
  Flags flags("status JOB [flags]",
              "Shows one job: its state and cause, its nodes, and how every rank is or ended.\n"
              "Ends with 0 when the job is known, whatever became of it (see wait).");
  flags.Positional("JOB", &job_id);
  flags.Switch("all", &all, "show every rank of a large job too");
  AddOutputFlag(flags, &json);
  AddServerFlag(flags, &server);
  if (const std::optional<int> over = ParseOrReport(flags, arguments, reporter)) return *over;
  absl::StatusOr<Place> place = FindJobPlace(server, job_id);
  if (!place.ok()) return ReportError(place.status(), reporter);
  if (place->archive != nullptr && !place->archive->missing_output().empty()) {
    reporter.Say("warning: " + place->archive->missing_output());
  }
  const absl::StatusOr<v1::Job> job = place->client->GetJob(job_id);
  if (!job.ok()) return ReportError(job.status(), reporter);
  const size_t shown = all ? static_cast<size_t>(job->ranks_size()) : kRanksShown;
  return PrintResult(json ? JobToJson(*job) : RenderJob(*job, std::time(nullptr), shown), reporter);
}

}  // namespace muster
