#include <fmt/format.h>
#include <google/protobuf/util/time_util.h>

#include <csignal>

#include "coordinator/cli/command.h"
#include "coordinator/cli/command_line.h"
#include "coordinator/cli/exit_status.h"
#include "coordinator/cli/job_json.h"
#include "coordinator/cli/place.h"
#include "coordinator/cli/run_flags.h"

namespace muster {

int RunCancel(Arguments arguments, Reporter& reporter) {
  std::string job_id;
  std::string server;
  std::string reason;
  std::optional<Duration> grace;
  bool now = false;
  bool json = false;
  Flags flags(
      "cancel JOB [flags]",
      "Stops a job: SIGTERM to its ranks, after the grace SIGKILL to everything they started.\n"
      "Does not wait for the end (see wait). A second call with a shorter grace shortens it.");
  flags.Positional("JOB", &job_id);
  flags.Value("grace", "TIME", SetDuration(&grace),
              "between SIGTERM and SIGKILL; default: the job's");
  flags.Switch("now", &now, "SIGKILL at once, as --grace 0");
  flags.Text("reason", "TEXT", &reason, "why, for the job's record");
  AddOutputFlag(flags, &json);
  AddServerFlag(flags, &server);
  if (const std::optional<int> over = ParseOrReport(flags, arguments, reporter)) return *over;
  absl::StatusOr<Place> place = FindLiveJob(server, job_id);
  if (!place.ok()) return ReportError(place.status(), reporter);
  v1::CancelJobRequest request;
  request.set_job_id(job_id);
  request.set_reason(reason.empty() ? "coordinator cancel" : reason);
  request.set_signal(SIGTERM);
  if (now) grace = Duration(0);
  if (grace) {
    *request.mutable_grace() =
        google::protobuf::util::TimeUtil::NanosecondsToDuration(grace->count());
  }
  const absl::StatusOr<v1::Job> job = place->client->CancelJob(request);
  if (!job.ok()) return ReportError(job.status(), reporter);
  if (json) return PrintResult(JobToJson(*job), reporter);
  reporter.Say(fmt::format("job {} is {}", job_id, StateWord(job->state())));
  return 0;
}

}  // namespace muster
