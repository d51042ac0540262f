#include <fmt/format.h>
#include <unistd.h>

#include "coordinator/cli/command.h"
#include "coordinator/cli/command_line.h"
#include "coordinator/cli/exit_status.h"
#include "coordinator/cli/follow.h"
#include "coordinator/cli/job_json.h"
#include "coordinator/cli/place.h"
#include "coordinator/cli/rank_files.h"

namespace muster {

int RunAttach(Arguments arguments, Reporter& reporter) {
  std::string job_id;
  std::string server;
  std::string log_dir;
  bool json = false;
  bool quiet = false;
  Flags flags(
      "attach JOB [flags]",
      "Follows a job as submit does: its output from the beginning, its end, its exit status.\n"
      "Ctrl-C (and SIGTERM, SIGHUP) leaves it running, with status 128 + signal; SIGUSR1 and\n"
      "SIGUSR2 are passed on to the ranks.");
  flags.Positional("JOB", &job_id);
  flags.Text("log-dir", "FOLDER", &log_dir, "write the output of every rank there");
  flags.Switch("quiet,q", &quiet, "print errors only");
  AddOutputFlag(flags, &json);
  AddServerFlag(flags, &server);
  if (const std::optional<int> over = ParseOrReport(flags, arguments, reporter)) return *over;
  reporter.set_quiet(quiet);
  absl::StatusOr<Place> place = FindLiveJob(server, job_id);
  if (!place.ok()) return ReportError(place.status(), reporter);
  if (!log_dir.empty()) {
    if (absl::Status status = PrepareLogDirectory(log_dir); !status.ok()) {
      ReportError(status, reporter);
      return kExitUsage;
    }
  }
  SignalWatcher signals;
  FollowOptions options;
  options.job_id = job_id;
  options.owns_job = false;
  options.show_output = !json;
  options.log_dir = log_dir;
  options.log_command = "coordinator logs " + job_id;
  options.reconnect = place->reconnect;
  const FollowResult result = FollowJob(*place->client, signals, reporter, options);
  if (json) {
    if (const int printed = PrintResult(JobToJson(result.job), reporter); printed != 0) {
      return printed;
    }
  }
  return result.exit_status;
}

}  // namespace muster
