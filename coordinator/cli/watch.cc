#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>

#include "coordinator/cli/command.h"
#include "coordinator/cli/command_line.h"
#include "coordinator/cli/exit_status.h"
#include "coordinator/cli/job_json.h"
#include "coordinator/cli/job_view.h"
#include "coordinator/cli/place.h"
#include "coordinator/cli/render.h"

namespace muster {
namespace {

std::string Stamp() {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  if (::localtime_r(&now, &local) == nullptr) return "";
  return fmt::format("{:%H:%M:%S} ", local);
}

}  // namespace

int RunWatch(Arguments arguments, Reporter& reporter) {
  std::string job_id;
  std::string server;
  bool json = false;
  Flags flags(
      "watch JOB [flags]",
      "Prints what changes about a job, one line per change, until it ends. With -o json: the\n"
      "whole job on one line after every change.");
  flags.Positional("JOB", &job_id);
  AddOutputFlag(flags, &json);
  AddServerFlag(flags, &server);
  if (const std::optional<int> over = ParseOrReport(flags, arguments, reporter)) return *over;
  absl::StatusOr<Place> place = FindJobPlace(server, job_id);
  if (!place.ok()) return ReportError(place.status(), reporter);
  JobView view;
  int printed = 0;
  Cancellation cancellation;
  const absl::Status status =
      place->client->WatchJob(job_id, cancellation, [&](const v1::Job& update) {
        const v1::Job before = view.job();
        view.Apply(update);
        std::string text;
        if (json) {
          text = JobToJson(view.job(), -1);
        } else {
          for (const std::string& line : DescribeChanges(before, view.job())) {
            text += Stamp() + line + "\n";
          }
        }
        printed = PrintResult(text, reporter);
        return printed == 0;
      });
  if (!status.ok()) return ReportError(status, reporter);
  return printed;
}

}  // namespace muster
