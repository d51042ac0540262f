#include "coordinator/cli/hccl_demo.h"

#include <fmt/format.h>

#include <random>

#include "common/base/annotate.h"
#include "coordinator/cli/exit_status.h"
#include "coordinator/core/pairing.h"

namespace muster {
namespace {

// Longer than a healthy pair ever takes; a pair that hangs ends by it.
constexpr int kDemoLimitSeconds = 600;

// HCCL_COMM_ID is the address where the root listens: the rendezvous of the job, whose port nobody
// else has. Errors are looked for in what it prints, because it ends with 0 after some of them.
constexpr char kScript[] = R"sh([ "$LOCAL_RANK" = 0 ] || exit 0
export HCCL_COMM_ID="$MASTER_ADDR:$MASTER_PORT"
out=$(python3 run_hccl_demo.py --nranks "$WORLD_SIZE" --node_id "$GROUP_RANK" \
  --ranks_per_node "$LOCAL_WORLD_SIZE" --size 32m --test all_reduce --loop 1000 2>&1)
status=$?
printf '%s\n' "$out"
case "$out" in
  *"Exiting HCCL demo with code: 1"*|*"Source: QPC, error"*) exit 1 ;;
esac
[ "$status" = 0 ] || exit "$status"
[ "$RANK" = 0 ] || exit 0
case "$out" in
  *Bandwidth*) exit 0 ;;
esac
echo "run_hccl_demo.py has printed no bandwidth" >&2
exit 1
)sh";

std::string RequestId() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

DemoResult ResultOf(DemoResult pair, const absl::Status& failed) {
  pair.result.set_verdict(v1::FAIL);
  pair.result.set_message(std::string(MessageOf(failed)));
  return pair;
}

// Waits for the job and says what came of it.
DemoResult Await(Client& client, DemoResult pair) {
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

v1::JobSpec DemoJob(const v1::HostEntry& first, const v1::HostEntry& second,
                    const std::string& folder, const v1::JobSpec& base) {
  v1::JobSpec spec;
  spec.set_name(fmt::format("hccl_demo {} {}", first.host(), second.host()));
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
  spec.set_working_directory(folder);
  spec.mutable_program()->set_kind(v1::Program::COMMAND);
  spec.mutable_program()->set_target("/bin/sh");
  spec.mutable_program()->add_args("-c");
  spec.mutable_program()->add_args(kScript);
  spec.mutable_time_limit()->set_seconds(kDemoLimitSeconds);
  spec.set_devices("auto");
  spec.set_bind("none");
  return spec;
}

std::vector<DemoResult> RunHcclDemo(Client& client, const std::vector<v1::HostEntry>& hosts,
                                    uint32_t rounds, const std::string& folder,
                                    const v1::JobSpec& base, Reporter& reporter) {
  std::vector<DemoResult> results;
  for (uint32_t round = 0; round < rounds; ++round) {
    std::vector<DemoResult> running;
    for (const auto& [a, b] : PairsOfRound(hosts.size(), round)) {
      DemoResult pair{hosts[a].host(), hosts[b].host(), "", {}};
      pair.result.set_check("hccl-demo");
      v1::SubmitJobRequest request;
      request.set_request_id(RequestId());
      *request.mutable_spec() = DemoJob(hosts[a], hosts[b], folder, base);
      const absl::StatusOr<v1::Job> job = client.SubmitJob(request);
      if (!job.ok()) {
        results.push_back(ResultOf(std::move(pair), job.status()));
        continue;
      }
      pair.job_id = job->job_id();
      running.push_back(std::move(pair));
    }
    for (DemoResult& pair : running) {
      reporter.Progress(fmt::format("hccl_demo: round {} of {}, {} and {} (job {})", round + 1,
                                    rounds, pair.first, pair.second, pair.job_id));
      results.push_back(Await(client, std::move(pair)));
    }
  }
  reporter.Progress("");
  return results;
}

}  // namespace muster
