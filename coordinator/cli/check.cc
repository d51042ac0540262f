// `coordinator check`: looks at nodes without running a job on them.
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "common/base/annotate.h"
#include "common/base/check_names.h"
#include "coordinator/cli/check_view.h"
#include "coordinator/cli/client_env.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/command_line.h"
#include "coordinator/cli/exit_status.h"
#include "coordinator/cli/hccl_demo.h"
#include "coordinator/cli/job_assembly.h"
#include "coordinator/cli/job_builder.h"
#include "coordinator/cli/names.h"
#include "coordinator/cli/pair_jobs.h"
#include "coordinator/cli/ping_pong.h"
#include "coordinator/cli/place.h"
#include "coordinator/cli/run_job.h"
#include "coordinator/daemon/machine.h"
#include "coordinator/daemon/standalone.h"
#include "coordinator/plan/local_hosts.h"

namespace muster {
namespace {

using Steady = std::chrono::steady_clock;

// How long agents of this machine may take to come up.
constexpr std::chrono::seconds kLocalStart(15);
// For the checks of all nodes, and for one round of the network test both ways.
constexpr std::chrono::seconds kCheckLimit(20);
constexpr std::chrono::seconds kRoundLimit(30);
// Shorter ones need no progress.
constexpr std::chrono::milliseconds kQuick(1000);
constexpr int kMostRounds = 1000;

struct CheckFlags {
  RunFlags run;
  std::string file;
  bool all = false;
  std::vector<std::string> skip;
  std::vector<std::string> require;
  std::optional<int> network_rounds;
  // Folder of hccl_demo on the nodes; empty: it is not run.
  std::string demo_folder;
  bool json = false;
};

// Takes names with commas between them; the flag may be repeated.
Flags::Setter SetNames(std::vector<std::string>* out) {
  return [out](std::string_view value) -> std::string {
    while (!value.empty()) {
      const size_t end = std::min(value.find(','), value.size());
      if (end > 0) out->emplace_back(value.substr(0, end));
      value.remove_prefix(std::min(end + 1, value.size()));
    }
    return "";
  };
}

Flags::Setter SetText(std::optional<std::string>* out) {
  return [out](std::string_view value) -> std::string {
    *out = std::string(value);
    return "";
  };
}

bool IsNumber(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

// `--network` without a number means one round.
std::vector<std::string> WithRounds(Arguments arguments) {
  std::vector<std::string> all(arguments.begin(), arguments.end());
  for (size_t i = 0; i < all.size(); ++i) {
    const bool has_number = i + 1 < all.size() && IsNumber(all[i + 1]);
    if (all[i] == "--network" && !has_number) all[i] = "--network=1";
  }
  return all;
}

// The hosts, and the job if there is one.
absl::StatusOr<v1::JobSpec> ReadSpec(const CheckFlags& flags) {
  const absl::StatusOr<ClientEnv> client = ReadClientEnv();
  if (!client.ok()) return client.status();
  absl::StatusOr<BuiltJob> built = BuiltJob();
  if (!flags.file.empty()) {
    built = BuildFromYaml(flags.file, flags.run, *client);
  } else {
    JobAssembly assembly(*client);
    if (const std::optional<ListedHosts> hosts = assembly.HostsOf(flags.run.hosts)) {
      assembly.Select(*hosts, SelectionOf(flags.run.hosts, {}));
    } else if (flags.run.local) {
      assembly.spec().add_hosts()->set_host("localhost");
    }
    built = assembly.Finish();
  }
  if (!built.ok()) return built.status();
  for (const std::string& name : flags.skip) built->spec.add_skip_checks(name);
  for (const std::string& name : flags.require) built->spec.add_require_checks(name);
  return std::move(built->spec);
}

v1::CheckNodesRequest RequestOf(const v1::JobSpec& spec, const CheckFlags& flags) {
  v1::CheckNodesRequest request;
  *request.mutable_spec() = spec;
  if (!flags.all) *request.mutable_hosts() = spec.hosts();
  request.mutable_spec()->clear_hosts();
  if (flags.network_rounds) {
    request.mutable_network_test()->set_rounds(static_cast<uint32_t>(*flags.network_rounds));
  }
  return request;
}

// Waits until the agents of this machine have come, or for as long as that may take: who is missing
// then is told by the check.
void AwaitAgents(Client& client, size_t agents) {
  const Steady::time_point deadline = Steady::now() + kLocalStart;
  while (Steady::now() < deadline) {
    const absl::StatusOr<v1::ListNodesResponse> nodes = client.ListNodes();
    if (!nodes.ok()) return;
    const auto alive =
        std::count_if(nodes->nodes().begin(), nodes->nodes().end(),
                      [](const v1::Node& node) { return node.state() == v1::Node::ALIVE; });
    if (static_cast<size_t>(alive) >= agents) return;
    // paces: nodes cannot be watched.
    ::poll(nullptr, 0, 10);
  }
}

// The hosts that are good enough to run something on, as the spec has them where it does.
std::vector<v1::HostEntry> GoodHosts(const CheckedCluster& found, const v1::JobSpec& spec) {
  std::vector<v1::HostEntry> hosts;
  for (const v1::CheckedNode& node : found.nodes) {
    CheckedCluster one;
    one.nodes.push_back(node);
    if (one.failed()) continue;
    v1::HostEntry& host = hosts.emplace_back();
    host.set_host(node.host());
    for (const v1::HostEntry& listed : spec.hosts()) {
      if (listed.host() == node.host()) host = listed;
    }
  }
  return hosts;
}

int Check(Client& client, const v1::JobSpec& spec, const CheckFlags& flags, Reporter& reporter) {
  const v1::CheckNodesRequest request = RequestOf(spec, flags);
  CheckedCluster found;
  const Steady::time_point begin = Steady::now();
  const auto rounds = std::chrono::seconds(kRoundLimit * flags.network_rounds.value_or(0));
  const absl::Status status =
      client.CheckNodes(request, kCheckLimit + rounds, [&](v1::CheckNodesResponse response) {
        found.Take(std::move(response));
        if (Steady::now() - begin < kQuick) return;
        reporter.Progress(found.pairs.empty()
                              ? fmt::format("{} answered so far", Count(found.nodes.size(), "node"))
                              : fmt::format("network: {} measured so far",
                                            Count(found.pairs.size(), "direction")));
      });
  reporter.Progress("");
  if (absl::IsUnimplemented(status)) {
    reporter.Say("this coordinator is of an older version, which checks no nodes");
    return kExitNotStarted;
  }
  if (absl::IsFailedPrecondition(status)) {
    reporter.Say(MessageOf(status));
    return kExitNotStarted;
  }
  if (!status.ok()) return ReportError(status, reporter);
  found.Sort();
  if (flags.network_rounds) {
    PingPongHosts hosts = HostsForPingPong(GoodHosts(found, spec), found);
    found.ping_pongs = RunPairs(
        client, hosts.able, static_cast<uint32_t>(*flags.network_rounds), kPingPong,
        [&](const v1::HostEntry& first, const v1::HostEntry& second) {
          return PingPongJob(first, second, spec);
        },
        reporter);
    for (PairResult& lacking : hosts.lacking) found.ping_pongs.push_back(std::move(lacking));
  }
  if (!flags.demo_folder.empty()) {
    const auto demo_rounds = static_cast<uint32_t>(flags.network_rounds.value_or(1));
    const std::vector<v1::HostEntry> hosts = GoodHosts(found, spec);
    if (hosts.size() < 2) reporter.Say("hccl_demo needs two nodes that passed the checks");
    found.demos = RunPairs(
        client, hosts, demo_rounds, "hccl-demo",
        [&](const v1::HostEntry& first, const v1::HostEntry& second) {
          return DemoJob(first, second, flags.demo_folder, spec);
        },
        reporter);
  }
  const int printed = PrintResult(flags.json ? CheckToJson(found) : RenderCheck(found), reporter);
  if (printed != 0) return printed;
  return found.failed() ? kExitNotStarted : 0;
}

int CheckHere(v1::JobSpec spec, const CheckFlags& flags, const std::string& sysroot,
              Reporter& reporter) {
  // Of machines; here all are this one.
  for (v1::HostEntry& host : *spec.mutable_hosts()) host.clear_address();
  StandaloneOptions options;
  options.hosts = spec.hosts();
  options.sysroot = sysroot;
  options.on_trouble = [&](const std::string& message) { reporter.Say("warning: " + message); };
  const size_t agents = PlanLocalAgents(spec.hosts(), MachineAddresses()).size();
  absl::StatusOr<std::unique_ptr<Standalone>> standalone = Standalone::Start(std::move(options));
  if (!standalone.ok()) {
    ReportError(standalone.status(), reporter);
    return absl::IsFailedPrecondition(standalone.status()) ? kExitUsage : kExitNotStarted;
  }
  Client client((*standalone)->channel(), (*standalone)->channel(ChannelUse::kLogs));
  AwaitAgents(client, agents);
  // Ranks of tests between pairs, if there are any, end when this command is gone.
  spec.mutable_on_coordinator_loss()->mutable_stop_after()->set_seconds(
      Standalone::kStopAfter.count());
  const int status = Check(client, spec, flags, reporter);
  (*standalone)->Stop();
  return status;
}

std::string NamesText() {
  std::string text;
  for (const CheckName& check : kCheckNames) {
    text += fmt::format("\n  {:<17} {}", check.name, check.about);
  }
  return text;
}

}  // namespace

int RunCheck(Arguments arguments, Reporter& reporter) {
  CheckFlags flags;
  HostFlags& hosts = flags.run.hosts;
  Flags parser(
      "check [JOB.yaml] [--hostfile FILE | --hosts LIST | --all] [flags]",
      "Checks nodes as before the start of a job, all at once, and runs nothing on them. With\n"
      "JOB.yaml they are checked for that job: its user, environment, folder, script and\n"
      "interpreter. Nodes that found the same share a line.\n"
      "Exit status 0: a job would start; 120: a check failed or a node is missing.\n"
      "Checks that --skip and --require take:" +
          NamesText());
  parser.Positional("JOB.yaml", &flags.file, false);
  parser.Value("hostfile,H", "FILE", SetText(&hosts.hostfile), "check the hosts of this hostfile");
  parser.Value("hosts", "LIST", SetText(&hosts.hosts), "check these hosts: node-[1-4],node-9");
  parser.Switch("all", &flags.all, "check every node that the coordinator has heard of");
  parser.Switch("local", &flags.run.local, "check this machine, without a coordinator");
  parser.Text("sysroot", "DIR", &flags.run.sysroot,
              "with --local: a simulated node, as for submit");
  parser.Value("skip", "NAMES", SetNames(&flags.skip), "leave these checks out");
  parser.Value("require", "NAMES", SetNames(&flags.require), "take warnings of these for failures");
  parser.Value("network", "ROUNDS", SetInt(&flags.network_rounds, 1, kMostRounds),
               "measure the network between pairs of nodes, with other partners in each\n"
               "round; without a number: 1. Nodes with EFA devices then run fi_pingpong,\n"
               "each pair as a job");
  parser.Text("hccl-demo", "DIR", &flags.demo_folder,
              "then run DIR/run_hccl_demo.py (Habana's hccl_demo, in the same folder on every\n"
              "node) between pairs of nodes that passed, as ordinary jobs, in as many\n"
              "rounds as --network has");
  AddOutputFlag(parser, &flags.json);
  AddServerFlag(parser, &flags.run.server);
  const std::vector<std::string> rest = WithRounds(arguments);
  if (const std::optional<int> over = ParseOrReport(parser, rest, reporter)) return *over;
  const char* variable = std::getenv("MUSTER_LOCAL");
  if (flags.run.server.empty() && variable != nullptr && std::string_view(variable) == "1") {
    flags.run.local = true;
  }
  const bool named = hosts.hostfile || hosts.hosts || !flags.file.empty();
  std::string problem;
  if (!named && !flags.all && !flags.run.local) {
    problem = "which nodes? name a job file, --hostfile FILE, --hosts LIST, --all or --local";
  } else if (flags.all && flags.run.local) {
    problem = "--all and --local exclude each other: --local has no nodes but those of its hosts";
  } else if (flags.all && (hosts.hostfile || hosts.hosts)) {
    problem = "--all excludes --hostfile and --hosts";
  } else if (flags.run.local && !flags.run.server.empty()) {
    problem = "--local and --server exclude each other";
  }
  if (!flags.demo_folder.empty() && !flags.demo_folder.starts_with('/')) {
    problem = "--hccl-demo: the folder must be an absolute path, as it is on the nodes";
  }
  if (!problem.empty()) {
    reporter.Say(problem);
    return kExitUsage;
  }
  const absl::StatusOr<std::string> sysroot = SysrootOf(flags.run, flags.run.local);
  if (!sysroot.ok()) return ReportError(sysroot.status(), reporter);
  absl::StatusOr<v1::JobSpec> spec = ReadSpec(flags);
  if (!spec.ok()) return ReportInputErrors(spec.status(), reporter);
  if (flags.run.local) return CheckHere(*std::move(spec), flags, *sysroot, reporter);
  absl::StatusOr<Place> place = FindCoordinator(flags.run.server);
  if (!place.ok()) return ReportError(place.status(), reporter);
  return Check(*place->client, *spec, flags, reporter);
}

}  // namespace muster
