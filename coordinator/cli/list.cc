#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <ctime>

#include "common/base/annotate.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/command_line.h"
#include "coordinator/cli/exit_status.h"
#include "coordinator/cli/job_json.h"
#include "coordinator/cli/place.h"
#include "coordinator/cli/render.h"

namespace muster {
namespace {

// Jobs that ran with --local on this machine.
void AddLocalJobs(size_t limit, Reporter& reporter, std::vector<v1::Job>* jobs) {
  size_t taken = 0;
  for (const LocalJob& local : ListLocalJobs(LocalJobsDirectory())) {
    if (limit != 0 && taken == limit) return;
    ++taken;
    absl::StatusOr<Place> place = OpenLocalJob(local);
    absl::StatusOr<v1::Job> job = place.ok() ? place->client->GetJob(local.job_id) : place.status();
    if (job.ok()) {
      jobs->push_back(*std::move(job));
    } else {
      reporter.Say(fmt::format("warning: local job {}: {}", local.job_id, MessageOf(job.status())));
    }
  }
}

}  // namespace

int RunList(Arguments arguments, Reporter& reporter) {
  std::string server;
  size_t limit = 20;
  bool json = false;
  Flags flags(
      "list [flags]",
      "Lists jobs, the newest first: those of the coordinator, if there is one, and those that\n"
      "ran with --local on this machine.");
  flags.Value(
      "limit,n", "N",
      [&limit](std::string_view value) -> std::string {
        const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), limit);
        if (error != std::errc() || end != value.data() + value.size()) {
          return fmt::format("expected a number, got '{}'", value);
        }
        return "";
      },
      "at most this many, 0: all; default 20");
  AddOutputFlag(flags, &json);
  AddServerFlag(flags, &server);
  if (const std::optional<int> over = ParseOrReport(flags, arguments, reporter)) return *over;
  std::vector<v1::Job> jobs;
  absl::StatusOr<std::optional<ServerAddress>> address = FindServer(server);
  if (!address.ok()) return ReportError(address.status(), reporter);
  if (address->has_value()) {
    absl::StatusOr<Place> place = FindCoordinator(server);
    if (!place.ok()) return ReportError(place.status(), reporter);
    absl::StatusOr<std::vector<v1::Job>> known = place->client->ListJobs(limit);
    if (!known.ok()) return ReportError(known.status(), reporter);
    jobs = *std::move(known);
  }
  if (server.empty()) AddLocalJobs(limit, reporter, &jobs);
  std::stable_sort(jobs.begin(), jobs.end(), [](const v1::Job& a, const v1::Job& b) {
    return a.create_time().seconds() > b.create_time().seconds();
  });
  if (limit != 0 && jobs.size() > limit) jobs.resize(limit);
  if (json) return PrintResult(JobsToJson(jobs), reporter);
  if (jobs.empty()) {
    reporter.Say("there are no jobs");
    return 0;
  }
  return PrintResult(RenderJobs(jobs, std::time(nullptr)), reporter);
}

}  // namespace muster
