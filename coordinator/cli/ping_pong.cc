#include "coordinator/cli/ping_pong.h"

#include <optional>

namespace muster {
namespace {

// Connecting may be tried for a few seconds; the test itself takes less than one.
constexpr std::chrono::minutes kPingPongLimit{1};
// Nodes that are busy for longer are not tested.
constexpr int kStartLimitSeconds = 30;

// EFA has reliable datagrams only. The first program may be late, and the second then finds nobody:
// it tries again. Should the first end because of a failure, so does the job.
constexpr char kScript[] = R"sh(PATH="$PATH:/opt/amazon/efa/bin"
if [ "$RANK" = 0 ]; then exec fi_pingpong -p efa -e rdm -B "$MASTER_PORT"; fi
for try in 1 2 3 4 5 6 7 8 9 10; do
  fi_pingpong -p efa -e rdm -P "$MASTER_PORT" "$MASTER_ADDR" && exit 0
  status=$?
  sleep 1
done
exit "$status"
)sh";

// Where the program is on a node; nothing when the node has no EFA devices.
std::optional<std::string> ProgramOn(const CheckedCluster& found, const std::string& host) {
  for (const v1::CheckedNode& node : found.nodes) {
    if (node.host() != host) continue;
    for (const v1::NodeTrait& trait : node.report().traits()) {
      if (trait.name() == kPingPong) return trait.value();
    }
  }
  return std::nullopt;
}

}  // namespace

v1::JobSpec PingPongJob(const v1::HostEntry& first, const v1::HostEntry& second,
                        const v1::JobSpec& base) {
  v1::JobSpec spec = PairJob(kPingPong, first, second, kScript, kPingPongLimit, base);
  for (v1::HostEntry& host : *spec.mutable_hosts()) {
    host.set_slot_count(1);
    host.clear_selected_slots();
  }
  spec.set_working_directory("/");
  spec.set_devices("none");
  spec.mutable_start_timeout()->set_seconds(kStartLimitSeconds);
  return spec;
}

PingPongHosts HostsForPingPong(const std::vector<v1::HostEntry>& hosts,
                               const CheckedCluster& found) {
  PingPongHosts sorted;
  for (const v1::HostEntry& host : hosts) {
    const std::optional<std::string> program = ProgramOn(found, host.host());
    if (!program) continue;
    if (!program->empty()) {
      sorted.able.push_back(host);
      continue;
    }
    PairResult& lacking = sorted.lacking.emplace_back();
    lacking.first = host.host();
    lacking.result.set_check(kPingPong);
    lacking.result.set_verdict(v1::SKIPPED);
    lacking.result.set_message("the program is neither in PATH nor in /opt/amazon/efa/bin");
    lacking.result.set_fix(
        "install it: the EFA installer of AWS has it, or the package libfabric-bin");
  }
  return sorted;
}

}  // namespace muster
