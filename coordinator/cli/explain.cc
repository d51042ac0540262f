// `coordinator explain`: where a rank would run and why, and who set each of its variables.
#include <fmt/format.h>

#include <map>

#include "common/base/annotate.h"
#include "coordinator/cli/client_env.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/command_line.h"
#include "coordinator/cli/exit_status.h"
#include "coordinator/cli/explain_view.h"
#include "coordinator/cli/job_builder.h"
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

}  // namespace

int RunExplain(Arguments arguments, Reporter& reporter) {
  std::vector<std::string> rest;
  std::vector<uint32_t> ranks;
  if (absl::Status status = TakeDiff(arguments, &rest, &ranks); !status.ok()) {
    return ReportError(status, reporter);
  }
  const bool diff = !ranks.empty();
  std::string file;
  RunFlags run;
  std::vector<uint32_t> shown;
  Flags flags(
      "explain JOB.yaml [--rank N] [--diff A B] [flags]",
      "Shows where a rank would run, what it would execute, and every environment variable with\n"
      "the layer and the line that set it, before anything runs. What the node's own environment\n"
      "adds is not known here. --diff A B shows only what differs between two ranks.");
  flags.Positional("JOB.yaml", &file);
  flags.Value("rank", "LIST", SetRanks(&shown), "these ranks, as 0-7,9; default: rank 0");
  AddRunFlags(flags, run);
  if (const std::optional<int> over = ParseOrReport(flags, rest, reporter)) return *over;
  if (!diff) ranks = shown.empty() ? std::vector<uint32_t>{0} : shown;

  const absl::StatusOr<BuiltJob> built = BuildFromYaml(file, run, ReadClientEnv());
  if (!built.ok()) return ReportInputErrors(built.status(), reporter);
  const absl::StatusOr<v1::Plan> plan = PlanJob(built->spec, {}, PlanDetail::kLayout);
  if (!plan.ok()) return ReportInputErrors(plan.status(), reporter);
  std::vector<RankExplanation> explained;
  for (const uint32_t rank : ranks) {
    std::optional<RankExplanation> one = Explain(built->spec, *plan, rank);
    if (!one) {
      reporter.Say(fmt::format("there is no rank {}, only 0 to {}", rank, plan->world_size() - 1));
      return kExitUsage;
    }
    explained.push_back(*std::move(one));
  }
  const bool json = run.output == "json";
  std::string text;
  if (diff) {
    text = json ? DiffToJson(explained[0], explained[1]) : RenderDiff(explained[0], explained[1]);
  } else {
    text = json ? ExplanationsToJson(explained) : RenderExplanations(explained);
  }
  return PrintResult(text, reporter);
}

}  // namespace muster
