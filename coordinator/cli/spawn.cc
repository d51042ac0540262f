#include "common/base/annotate.h"
#include "coordinator/cli/client_env.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/command_line.h"
#include "coordinator/cli/exit_status.h"
#include "coordinator/cli/job_builder.h"
#include "coordinator/cli/run_job.h"
#include "coordinator/cli/signals.h"
#include "coordinator/cli/spawn_flags.h"

namespace muster {

int RunSpawn(Arguments arguments, Reporter& reporter) {
  const absl::StatusOr<SpawnFlags> flags = ParseSpawnFlags(arguments);
  if (!flags.ok()) {
    ReportError(flags.status(), reporter);
    reporter.Say("--help shows what this command takes");
    return kExitUsage;
  }
  if (flags->help) return PrintResult(SpawnHelp(), reporter);
  const absl::StatusOr<ClientEnv> client = ReadClientEnv();
  if (!client.ok()) return ReportError(client.status(), reporter);
  absl::StatusOr<BuiltJob> built = [&] {
    const SignalsAsUsual interruptible;
    return BuildFromFlags(*flags, *client);
  }();
  if (!built.ok()) return ReportInputErrors(built.status(), reporter);
  return RunJob(*std::move(built), flags->run, reporter);
}

}  // namespace muster
