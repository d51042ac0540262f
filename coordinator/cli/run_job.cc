#include "coordinator/cli/run_job.h"

#include <fmt/format.h>
#include <google/protobuf/util/time_util.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <random>

#include "common/base/annotate.h"
#include "common/config/text.h"
#include "coordinator/cli/client.h"
#include "coordinator/cli/command_line.h"
#include "coordinator/cli/end_limit.h"
#include "coordinator/cli/exit_status.h"
#include "coordinator/cli/follow.h"
#include "coordinator/cli/job_json.h"
#include "coordinator/cli/names.h"
#include "coordinator/cli/plan_json.h"
#include "coordinator/cli/rank_files.h"
#include "coordinator/cli/signals.h"
#include "coordinator/daemon/standalone.h"
#include "coordinator/plan/plan_job.h"
#include "coordinator/spec/hostfile.h"

namespace muster {
namespace {

using google::protobuf::util::TimeUtil;

// As in the protocol: what a job has that says nothing else.
constexpr std::chrono::seconds kDefaultGrace(30);
// A coordinator that is restarted is back within this time.
constexpr std::chrono::seconds kReconnect(30);
constexpr std::chrono::seconds kNoPatience(0);

bool WantsLocal(const RunFlags& flags) {
  if (flags.local) return true;
  const char* variable = std::getenv("MUSTER_LOCAL");
  return flags.server.empty() && variable != nullptr && std::string_view(variable) == "1";
}

std::string MakeRequestId() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

// A job that is for this machine is so by the machine's name: to a coordinator, which may be
// elsewhere and whose nodes all have a loopback address, `localhost` says nothing.
void NameThisMachine(v1::JobSpec& spec) {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return;
  for (v1::HostEntry& host : *spec.mutable_hosts()) host.set_host(name.data());
}

std::string UnreachableText(const ServerAddress& server, const absl::Status& status) {
  return fmt::format(
      "cannot reach the coordinator at {} (from {}): {}\n"
      "to run on this machine alone, add --local",
      server.target, server.origin, MessageOf(status));
}

// One run of one command.
class JobRun {
 public:
  JobRun(BuiltJob built, const RunFlags& flags, Reporter& reporter)
      : built_(std::move(built)), flags_(flags), reporter_(reporter) {}

  int Run();

 private:
  // What a hostfile says of machines and does not hold when all of them are this one. An error: bad
  // input.
  absl::Status FitToThisMachine();
  int DryRun(const std::optional<ServerAddress>& server);
  int RunLocal();
  int RunRemote(const ServerAddress& server);
  absl::StatusOr<v1::Job> Submit(Client& client, std::chrono::milliseconds patience);
  int Follow(Client& client, const v1::Job& job, bool local);
  // 128 + signal when the user has had enough before there is a job.
  std::optional<int> EndedByUser();

  BuiltJob built_;
  const RunFlags& flags_;
  Reporter& reporter_;
  // Where the agents of a local run look for cards.
  std::string sysroot_;
  SignalWatcher signals_;
};

int JobRun::Run() {
  reporter_.set_quiet(flags_.quiet || flags_.log_level == "error" || flags_.log_level == "warning");
  if (flags_.log_level != "error") {
    for (const std::string& warning : built_.warnings) reporter_.Say("warning: " + warning);
  }
  for (const std::string& note : built_.notes) reporter_.Note(note);
  bool local = WantsLocal(flags_);
  if (flags_.local && !flags_.server.empty()) {
    reporter_.Say("--local and --server exclude each other");
    return kExitUsage;
  }
  std::optional<ServerAddress> server;
  if (!local) {
    absl::StatusOr<std::optional<ServerAddress>> found = FindServer(flags_.server);
    if (!found.ok()) return ReportError(found.status(), reporter_);
    server = *std::move(found);
    if (!server && flags_.local_without_server) {
      reporter_.Note("no hostfile and no coordinator: runs on this machine alone, as with --local");
      local = true;
    }
  }
  absl::StatusOr<std::string> sysroot = SysrootOf(flags_, local);
  if (!sysroot.ok()) return ReportError(sysroot.status(), reporter_);
  sysroot_ = *std::move(sysroot);
  if (server && built_.this_machine) NameThisMachine(built_.spec);
  if (local) {
    if (absl::Status status = FitToThisMachine(); !status.ok()) {
      return ReportError(status, reporter_);
    }
  }
  if (flags_.dry_run) return DryRun(server);
  if (local && flags_.detach) {
    reporter_.Say(
        "--detach needs a coordinator that goes on: with --local it ends with this command");
    return kExitUsage;
  }
  if (!local && !server) {
    reporter_.Say(NoServerText(true));
    return kExitNoCoordinator;
  }
  if (!built_.log_dir.empty() && !flags_.detach) {
    if (absl::Status status = PrepareLogDirectory(built_.log_dir); !status.ok()) {
      ReportError(status, reporter_);
      return kExitUsage;
    }
  }
  return local ? RunLocal() : RunRemote(*server);
}

absl::Status JobRun::FitToThisMachine() {
  const char* variable = std::getenv("MUSTER_SLOTS");
  const std::string_view text = variable == nullptr ? "" : variable;
  uint32_t slots = 0;
  if (!text.empty()) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), slots);
    if (error != std::errc() || end != text.data() + text.size() || slots == 0 ||
        slots > kMaxSlotsPerHost) {
      return absl::InvalidArgumentError(fmt::format("MUSTER_SLOTS: expected 1 to {}, got '{}'",
                                                    kMaxSlotsPerHost, Printable(text)));
    }
  }
  for (v1::HostEntry& host : *built_.spec.mutable_hosts()) {
    if (slots > 0 && host.slot_count() == 0 && host.selected_slots().empty()) {
      host.set_slot_count(slots);
    }
    if (host.address().empty()) continue;
    reporter_.Say(fmt::format("warning: {}: addr={} is left out: with --local every node is here",
                              host.source(), host.address()));
    host.clear_address();
  }
  return absl::OkStatus();
}

int JobRun::DryRun(const std::optional<ServerAddress>& server) {
  absl::StatusOr<v1::Plan> plan = absl::UnavailableError("");
  if (server) {
    absl::StatusOr<std::unique_ptr<Client>> client = Connect(server->target);
    if (!client.ok()) return ReportError(client.status(), reporter_);
    plan = (*client)->PlanJob(built_.spec);
    if (absl::IsUnavailable(plan.status())) {
      reporter_.Say(UnreachableText(*server, plan.status()));
      return kExitNoCoordinator;
    }
  } else {
    plan = PlanJob(built_.spec, {}, PlanDetail::kLayout);
  }
  if (!plan.ok()) return ReportInputErrors(plan.status(), reporter_);
  return PrintResult(PlanToJson(built_.spec, *plan, built_.warnings), reporter_);
}

std::optional<int> JobRun::EndedByUser() {
  const std::optional<int> signal = signals_.FirstEnd();
  if (!signal) return std::nullopt;
  reporter_.Say("ended before the job began");
  return kExitSignalBase + *signal;
}

int JobRun::RunLocal() {
  // No orphans: ranks stop by themselves when this process is gone.
  *built_.spec.mutable_on_coordinator_loss()->mutable_stop_after() =
      TimeUtil::SecondsToDuration(Standalone::kStopAfter.count());
  if (const std::optional<int> ended = EndedByUser()) return *ended;
  StandaloneOptions options;
  options.hosts = built_.spec.hosts();
  // Where there are cards that the job does not want, its slots are plain ones.
  if (built_.spec.devices() == "none") options.devices = "none";
  options.sysroot = sysroot_;
  options.on_trouble = [this](const std::string& message) { reporter_.Say("warning: " + message); };
  absl::StatusOr<std::unique_ptr<Standalone>> standalone = Standalone::Start(std::move(options));
  if (!standalone.ok()) {
    ReportError(standalone.status(), reporter_);
    // Too many hosts for one machine is the input's fault; the rest is this machine's.
    return absl::IsFailedPrecondition(standalone.status()) ? kExitUsage : kExitNotStarted;
  }
  if (const std::optional<int> ended = EndedByUser()) return *ended;
  try {
    Client client((*standalone)->channel(), (*standalone)->channel(ChannelUse::kLogs));
    const absl::StatusOr<v1::Job> job = Submit(client, kNoPatience);
    if (!job.ok()) return ReportInputErrors(job.status(), reporter_);
    const int status = Follow(client, *job, true);
    (*standalone)->Stop();
    LimitEnd(status);
    return status;
  } catch (const std::system_error&) {
    // No thread can be had. Its end might wait for one for ever; the agents end by themselves when
    // this process is gone.
    (void)standalone->release();
    throw;
  }
}

int JobRun::RunRemote(const ServerAddress& server) {
  absl::StatusOr<std::unique_ptr<Client>> client = Connect(server.target);
  if (!client.ok()) return ReportError(client.status(), reporter_);
  if (const std::optional<int> ended = EndedByUser()) return *ended;
  // One that was there and goes away in the middle is waited for: the job may have been accepted.
  const bool reachable = (*client)->IsReachable();
  const absl::StatusOr<v1::Job> job = Submit(**client, reachable ? kReconnect : kNoPatience);
  if (absl::IsUnavailable(job.status())) {
    reporter_.Say(UnreachableText(server, job.status()));
    return kExitNoCoordinator;
  }
  if (!job.ok()) return ReportInputErrors(job.status(), reporter_);
  if (!flags_.detach) return Follow(**client, *job, false);
  return PrintResult(flags_.output == "json" ? JobIdToJson(job->job_id()) : job->job_id() + "\n",
                     reporter_);
}

absl::StatusOr<v1::Job> JobRun::Submit(Client& client, std::chrono::milliseconds patience) {
  v1::SubmitJobRequest request;
  request.set_request_id(MakeRequestId());
  *request.mutable_spec() = built_.spec;
  return client.SubmitJob(request, patience);
}

int JobRun::Follow(Client& client, const v1::Job& job, bool local) {
  const bool json = flags_.output == "json";
  FollowOptions options;
  options.job_id = job.job_id();
  options.show_output = !json;
  options.log_dir = built_.log_dir;
  options.log_command = "coordinator logs " + job.job_id();
  options.grace = kDefaultGrace;
  if (built_.spec.has_grace()) {
    options.grace =
        std::chrono::milliseconds(TimeUtil::DurationToMilliseconds(built_.spec.grace()));
  }
  options.local = local;
  options.reconnect = local ? std::chrono::seconds(0) : kReconnect;
  reporter_.Note(fmt::format("job {}{} on {}", job.job_id(),
                             job.name().empty() ? "" : fmt::format(" ({})", job.name()),
                             Count(static_cast<uint64_t>(built_.spec.hosts_size()), "host")));
  const FollowResult result = FollowJob(client, signals_, reporter_, options);
  if (json) {
    if (const int printed = PrintResult(JobToJson(result.job), reporter_); printed != 0) {
      return printed;
    }
  }
  return result.exit_status;
}

}  // namespace

int ReportInputErrors(const absl::Status& status, Reporter& reporter) {
  // Without a prefix, so that editors find FILE:LINE.
  reporter.Print(fmt::format("{}\n", MessageOf(status)));
  return ExitStatusOf(status);
}

int RunJob(BuiltJob built, const RunFlags& flags, Reporter& reporter) {
  if (flags.log_level == "debug") spdlog::set_level(spdlog::level::debug);
  return JobRun(std::move(built), flags, reporter).Run();
}

}  // namespace muster
