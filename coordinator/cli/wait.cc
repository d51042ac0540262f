#include <fmt/format.h>

#include "common/base/annotate.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/command_line.h"
#include "coordinator/cli/exit_status.h"
#include "coordinator/cli/job_feed.h"
#include "coordinator/cli/job_json.h"
#include "coordinator/cli/job_view.h"
#include "coordinator/cli/place.h"
#include "coordinator/cli/summary.h"

namespace muster {

int RunWait(Arguments arguments, Reporter& reporter) {
  std::string job_id;
  std::string server;
  bool json = false;
  bool quiet = false;
  Flags flags(
      "wait JOB [flags]",
      "Waits until a job has ended and ends with its exit status. Says on stderr why, when it\n"
      "was not a success; with -o json prints the job.");
  flags.Positional("JOB", &job_id);
  flags.Switch("quiet,q", &quiet, "say nothing");
  AddOutputFlag(flags, &json);
  AddServerFlag(flags, &server);
  if (const std::optional<int> over = ParseOrReport(flags, arguments, reporter)) return *over;
  absl::StatusOr<Place> place = FindJobPlace(server, job_id);
  if (!place.ok()) return ReportError(place.status(), reporter);
  JobView view;
  Mailbox mailbox;
  const JobFeed feed(*place->client, job_id, place->reconnect, mailbox);
  absl::Status end;
  for (bool over = false; !over;) {
    const News news = mailbox.Take(std::chrono::hours(1));
    for (const News::Update& update : news.updates) {
      if (update.whole) view.Restart();
      view.Apply(update.job);
    }
    if (news.watch_end) end = *news.watch_end;
    over = news.watch_end.has_value();
  }
  if (!view.known() || !IsTerminal(view.job())) {
    return ReportError(
        end.ok() ? absl::UnavailableError("the coordinator stopped before the job ended") : end,
        reporter);
  }
  const v1::Job& job = view.job();
  const int status = ExitStatusOf(job);
  if (json) {
    if (const int printed = PrintResult(JobToJson(job), reporter); printed != 0) return printed;
  } else if (status != 0 && !quiet) {
    for (const std::string& line : FailureReport(job, EndContext())) reporter.Say(line);
  }
  return status;
}

}  // namespace muster
