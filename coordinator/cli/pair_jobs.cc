#include "coordinator/cli/pair_jobs.h"

#include <fmt/format.h>

#include <random>

#include "common/base/annotate.h"
#include "coordinator/cli/exit_status.h"
#include "coordinator/core/pairing.h"

namespace muster {
namespace {

std::string RequestId() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

PairResult ResultOf(PairResult pair, const absl::Status& failed) {
  pair.result.set_verdict(v1::FAIL);
  pair.result.set_message(std::string(MessageOf(failed)));
  return pair;
}

// Waits for the job and says what came of it.
PairResult Await(Client& client, PairResult pair) {
  Cancellation never;
  v1::Job last;
  const absl::Status watched = client.WatchJob(pair.job_id, never, [&](v1::Job job) {
    if (last.job_id().empty() || IsTerminal(job)) last = std::move(job);
    return !IsTerminal(last);
  });
  if (!watched.ok()) return ResultOf(std::move(pair), watched);
  const bool passed = last.state() == v1::Job::SUCCEEDED;
  pair.result.set_verdict(passed ? v1::PASS : v1::FAIL);
  if (passed) return pair;
  pair.result.set_message(last.has_first_failure() ? last.first_failure().message()
                                                   : last.reason());
  pair.result.set_fix(fmt::format("coordinator logs {} shows what it printed", pair.job_id));
  return pair;
}

}  // namespace

v1::JobSpec PairJob(std::string_view name, const v1::HostEntry& first, const v1::HostEntry& second,
                    std::string_view script, std::chrono::seconds limit, const v1::JobSpec& base) {
  v1::JobSpec spec;
  spec.set_name(fmt::format("{} {} {}", name, first.host(), second.host()));
  *spec.add_hosts() = first;
  *spec.add_hosts() = second;
  spec.set_user(base.user());
  *spec.mutable_env() = base.env();
  *spec.mutable_skip_checks() = base.skip_checks();
  *spec.mutable_on_coordinator_loss() = base.on_coordinator_loss();
  for (const v1::NodeOverride& node : base.node_overrides()) {
    if (node.host() == first.host() || node.host() == second.host()) {
      v1::NodeOverride& own = *spec.add_node_overrides();
      own.set_host(node.host());
      *own.mutable_env() = node.env();
    }
  }
  spec.mutable_program()->set_kind(v1::Program::COMMAND);
  spec.mutable_program()->set_target("/bin/sh");
  spec.mutable_program()->add_args("-c");
  spec.mutable_program()->add_args(std::string(script));
  spec.mutable_time_limit()->set_seconds(limit.count());
  spec.set_bind("none");
  return spec;
}

std::vector<PairResult> RunPairs(Client& client, const std::vector<v1::HostEntry>& hosts,
                                 uint32_t rounds, std::string_view check, const PairJobFor& job_for,
                                 Reporter& reporter) {
  std::vector<PairResult> results;
  for (uint32_t round = 0; round < rounds; ++round) {
    std::vector<PairResult> running;
    for (const auto& [a, b] : PairsOfRound(hosts.size(), round)) {
      PairResult pair{hosts[a].host(), hosts[b].host(), "", {}};
      pair.result.set_check(std::string(check));
      v1::SubmitJobRequest request;
      request.set_request_id(RequestId());
      *request.mutable_spec() = job_for(hosts[a], hosts[b]);
      const absl::StatusOr<v1::Job> job = client.SubmitJob(request);
      if (!job.ok()) {
        results.push_back(ResultOf(std::move(pair), job.status()));
        continue;
      }
      pair.job_id = job->job_id();
      running.push_back(std::move(pair));
    }
    for (PairResult& pair : running) {
      reporter.Progress(fmt::format("{}: round {} of {}, {} and {} (job {})", check, round + 1,
                                    rounds, pair.first, pair.second, pair.job_id));
      results.push_back(Await(client, std::move(pair)));
    }
  }
  reporter.Progress("");
  return results;
}

}  // namespace muster
