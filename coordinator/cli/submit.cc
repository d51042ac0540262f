#include "coordinator/cli/client_env.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/command_line.h"
#include "coordinator/cli/job_builder.h"
#include "coordinator/cli/run_job.h"
#include "coordinator/cli/signals.h"

namespace muster {

int RunSubmit(Arguments arguments, Reporter& reporter) {
  RunFlags run;
  std::string file;
  Flags flags(
      "submit JOB.yaml [flags]",
      "Runs the job that a job.yaml describes and follows it: output of the ranks on stdout,\n"
      "own messages on stderr, exit status of the job. Flags win over the file.\n"
      "Ctrl-C stops the ranks with SIGTERM and, after the grace, SIGKILL; twice: SIGKILL now.\n"
      "SIGUSR1 and SIGUSR2 are passed on to the ranks.");
  AddRunFlags(flags, run);
  flags.Positional("JOB.yaml", &file);
  if (const std::optional<int> over = ParseOrReport(flags, arguments, reporter)) return *over;
  const absl::StatusOr<ClientEnv> client = ReadClientEnv();
  if (!client.ok()) return ReportError(client.status(), reporter);
  absl::StatusOr<BuiltJob> built = [&] {
    const SignalsAsUsual interruptible;
    return BuildFromYaml(file, run, *client);
  }();
  if (!built.ok()) return ReportInputErrors(built.status(), reporter);
  return RunJob(*std::move(built), run, reporter);
}

}  // namespace muster
