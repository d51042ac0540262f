// `coordinator explain`: where a rank would run or ran and why, and who set each of its variables.
#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "common/base/annotate.h"
#include "coordinator/cli/client_env.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/command_line.h"
#include "coordinator/cli/exit_status.h"
#include "coordinator/cli/explain_view.h"
#include "coordinator/cli/job_builder.h"
#include "coordinator/cli/kept_job.h"
#include "coordinator/cli/run_job.h"
#include "coordinator/plan/plan_job.h"

namespace muster {
namespace {

// Takes `--diff A B` and `--diff=A,B` out of the arguments, because it has two values.
absl::Status TakeDiff(Arguments arguments, std::vector<std::string>* rest,
                      std::vector<uint32_t>* ranks) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    std::string text;
    if (argument == "--diff") {
      if (i + 2 >= arguments.size()) {
        return absl::InvalidArgumentError("--diff needs two ranks: --diff A B");
      }
      text = arguments[i + 1] + "," + arguments[i + 2];
      i += 2;
    } else if (argument.starts_with("--diff=")) {
      text = argument.substr(7);
    } else {
      rest->push_back(argument);
      continue;
    }
    // Not ParseRanks: the order and equal numbers matter.
    const size_t comma = text.find(',');
    for (const std::string& part :
         {text.substr(0, comma), comma == std::string::npos ? "" : text.substr(comma + 1)}) {
      std::vector<uint32_t> one;
      if (!SetRanks(&one)(part).empty() || one.size() != 1) {
        return absl::InvalidArgumentError(
            fmt::format("--diff: expected two ranks, got '{}'", text));
      }
      ranks->push_back(one[0]);
    }
  }
  return absl::OkStatus();
}

// What is to be explained: a job file before its run, or a local job after it.
struct Subject {
  v1::JobSpec spec;
  v1::Plan plan;
  std::optional<StartedJob> started;
};

absl::StatusOr<Subject> ReadJobFile(const std::string& path, const RunFlags& run) {
  const absl::StatusOr<ClientEnv> client = ReadClientEnv();
  if (!client.ok()) return client.status();
  absl::StatusOr<BuiltJob> built = BuildFromYaml(path, run, *client);
  if (!built.ok()) return built.status();
  absl::StatusOr<v1::Plan> plan = PlanJob(built->spec, {}, PlanDetail::kLayout);
  if (!plan.ok()) return plan.status();
  return Subject{std::move(built->spec), *std::move(plan), std::nullopt};
}

absl::StatusOr<Subject> ReadJob(const LocalJob& job) {
  absl::StatusOr<KeptJob> kept = ReadKeptJob(job);
  if (!kept.ok()) return kept.status();
  return Subject{std::move(kept->spec), std::move(kept->plan), std::move(kept->started)};
}

// The local job that `name` means; nothing when it can only be a file.
std::optional<LocalJob> MeantJob(const std::string& name) {
  std::error_code error;
  if (std::filesystem::is_regular_file(name, error)) return std::nullopt;
  return FindLocalJob(name);
}

}  // namespace

int RunExplain(Arguments arguments, Reporter& reporter) {
  std::vector<std::string> rest;
  std::vector<uint32_t> ranks;
  if (absl::Status status = TakeDiff(arguments, &rest, &ranks); !status.ok()) {
    return ReportError(status, reporter);
  }
  const bool diff = !ranks.empty();
  std::string name;
  RunFlags run;
  std::vector<uint32_t> shown;
  constexpr char kRankHelp[] = "these ranks, as 0-7,9; default: rank 0";
  Flags flags(
      "explain JOB|JOB.yaml [--rank N] [--diff A B] [flags]",
      "Shows where a rank would run, what it would execute, and every environment variable with\n"
      "the layer and the line that set it, before anything runs. With the id of a local job that\n"
      "has ended: where it ran, with what. What the node's own environment adds is not known "
      "here.\n"
      "--diff A B shows only what differs between two ranks. Flags that change a job are for job\n"
      "files only.");
  flags.Positional("JOB|JOB.yaml", &name);
  flags.Value("rank", "LIST", SetRanks(&shown), kRankHelp);
  AddRunFlags(flags, run);
  if (const std::optional<int> over = ParseOrReport(flags, rest, reporter)) return *over;

  const std::optional<LocalJob> job = MeantJob(name);
  bool json = run.output == "json";
  if (job) {
    // Again, without the flags that cannot change what has happened.
    Flags few("explain JOB [--rank N] [--diff A B] [flags]", "");
    few.Positional("JOB", &name);
    few.Value("rank", "LIST", SetRanks(&shown), kRankHelp);
    AddOutputFlag(few, &json);
    if (const std::optional<int> over = ParseOrReport(few, rest, reporter)) return *over;
  }
  std::error_code error;
  if (!job && name.find_first_of("./") == std::string::npos &&
      !std::filesystem::exists(name, error)) {
    reporter.Say(fmt::format("{}: no local job and no job file of this name", name));
    return kExitUsage;
  }
  if (const absl::StatusOr<std::string> sysroot = SysrootOf(run, run.local); !sysroot.ok()) {
    return ReportError(sysroot.status(), reporter);
  }
  if (!diff) ranks = shown.empty() ? std::vector<uint32_t>{0} : shown;
  const absl::StatusOr<Subject> subject = job ? ReadJob(*job) : ReadJobFile(name, run);
  if (!subject.ok()) {
    return job ? ReportError(subject.status(), reporter)
               : ReportInputErrors(subject.status(), reporter);
  }
  std::vector<RankExplanation> explained;
  for (const uint32_t rank : ranks) {
    std::optional<RankExplanation> one =
        Explain(subject->spec, subject->plan, rank, subject->started);
    if (!one) {
      reporter.Say(
          fmt::format("there is no rank {}, only 0 to {}", rank, subject->plan.world_size() - 1));
      return kExitUsage;
    }
    explained.push_back(*std::move(one));
  }
  std::string text;
  if (diff) {
    text = json ? DiffToJson(explained[0], explained[1]) : RenderDiff(explained[0], explained[1]);
  } else {
    text = json ? ExplanationsToJson(explained) : RenderExplanations(explained);
  }
  return PrintResult(text, reporter);
}

}  // namespace muster
