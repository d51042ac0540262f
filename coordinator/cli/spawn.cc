#include <fmt/format.h>

#include <memory>

#include "common/base/annotate.h"
#include "coordinator/cli/client_env.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/command_line.h"
#include "coordinator/cli/exit_status.h"
#include "coordinator/cli/job_builder.h"
#include "coordinator/cli/pid_file.h"
#include "coordinator/cli/run_job.h"
#include "coordinator/cli/signals.h"
#include "coordinator/cli/spawn_flags.h"

namespace muster {
namespace {

// Where scripts that have given --save_pid look.
constexpr char kPidFolder[] = "/tmp";

int Spawn(Arguments arguments, SpawnStyle style, Reporter& reporter) {
  absl::StatusOr<SpawnFlags> flags = ParseSpawnFlags(arguments, style);
  if (!flags.ok()) {
    ReportError(flags.status(), reporter);
    reporter.Say("--help shows what this command takes");
    return kExitUsage;
  }
  if (flags->help) return PrintResult(SpawnHelp(style), reporter);
  const absl::StatusOr<ClientEnv> client = ReadClientEnv();
  if (!client.ok()) return ReportError(client.status(), reporter);
  absl::StatusOr<BuiltJob> built = [&] {
    const SignalsAsUsual interruptible;
    return BuildFromFlags(*flags, *client);
  }();
  if (!built.ok()) return ReportInputErrors(built.status(), reporter);
  // The programs that are replaced run on this machine then, and need nothing else.
  flags->run.local_without_server = built->this_machine && style != SpawnStyle::kSpawn;
  std::unique_ptr<PidFile> pid_file;
  if (flags->save_pid && !flags->run.dry_run) {
    absl::StatusOr<std::unique_ptr<PidFile>> created = PidFile::Create(kPidFolder);
    if (created.ok()) {
      pid_file = *std::move(created);
    } else {
      built->warnings.push_back(fmt::format("--save_pid: {}", MessageOf(created.status())));
    }
  }
  return RunJob(*std::move(built), flags->run, reporter);
}

}  // namespace

int RunSpawn(Arguments arguments, Reporter& reporter) {
  return Spawn(arguments, SpawnStyle::kSpawn, reporter);
}

int RunDeepspeed(Arguments arguments, Reporter& reporter) {
  return Spawn(arguments, SpawnStyle::kDeepspeed, reporter);
}

int RunGaudiSpawn(Arguments arguments, Reporter& reporter) {
  return Spawn(arguments, SpawnStyle::kGaudiSpawn, reporter);
}

}  // namespace muster
