#include "coordinator/core/spec_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "common/base/annotate.h"
#include "common/base/check_names.h"
#include "coordinator/core/job_text.h"
#include "coordinator/core/proto_time.h"
#include "coordinator/plan/plan_job.h"
#include "coordinator/spec/container.h"
#include "coordinator/spec/core_list.h"

namespace muster {
namespace {

constexpr uint32_t kMaxAttempts = 1000;
constexpr size_t kMaxUserBytes = 256;

class Problems {
 public:
  void Add(std::string text) { lines_.push_back(std::move(text)); }
  void Unsupported(std::string_view what) {
    Add(fmt::format("{}: not supported by this version", what));
  }
  absl::Status ToStatus() const {
    if (lines_.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(fmt::format("{}", fmt::join(lines_, "\n")));
  }

 private:
  std::vector<std::string> lines_;
};

void CheckDuration(std::string_view name, bool is_set, const google::protobuf::Duration& value,
                   bool may_be_zero, Problems& problems) {
  if (!is_set) return;
  const bool negative = value.seconds() < 0 || value.nanos() < 0;
  if (negative || value.nanos() > 999'999'999) {
    problems.Add(fmt::format("{}: not a time", name));
  } else if (!may_be_zero && value.seconds() == 0 && value.nanos() == 0) {
    problems.Add(fmt::format("{}: must be more than 0", name));
  }
}

bool IsEnvName(std::string_view name) {
  const auto letter = [](char c) {
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  return !name.empty() && letter(name.front()) &&
         std::all_of(name.begin(), name.end(),
                     [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

void CheckEnv(const google::protobuf::RepeatedPtrField<v1::EnvAssignment>& env,
              Problems& problems) {
  for (const v1::EnvAssignment& assignment : env) {
    if (!IsEnvName(assignment.name())) {
      problems.Add(fmt::format("env: a variable cannot be named \"{}\"", assignment.name()));
    }
    for (const v1::EnvPart& part : assignment.parts()) {
      if (part.literal().find('\0') != std::string::npos) {
        problems.Add(fmt::format("env: the value of {} has a NUL byte", assignment.name()));
      }
    }
  }
}

void CheckRestart(const v1::RestartPolicy& restart, Problems& problems) {
  if (restart.spares() > 0) problems.Unsupported("restart.spares");
  if (restart.max_attempts() > kMaxAttempts) {
    problems.Add(fmt::format("restart.max_attempts: at most {}, got {}", kMaxAttempts,
                             restart.max_attempts()));
  }
  for (const std::string& on : restart.on()) {
    if (on == "node-lost" || on == "rank-failed") continue;
    problems.Add(fmt::format("restart.on: node-lost or rank-failed expected, got \"{}\"", on));
  }
}

void CheckChoice(std::string_view name, std::string_view value,
                 std::initializer_list<std::string_view> known, Problems& problems) {
  if (value.empty() || std::find(known.begin(), known.end(), value) != known.end()) return;
  problems.Add(
      fmt::format("{}: one of {} expected, got \"{}\"", name, fmt::join(known, ", "), value));
}

void CheckStall(const v1::JobSpec& spec, Problems& problems) {
  const v1::StallPolicy& stall = spec.stall();
  CheckDuration("stall.after", true, stall.after(), false, problems);
  CheckChoice("stall.action", stall.action(), {"none", "dump", "restart", "fail"}, problems);
  if (stall.action() == "restart" && spec.restart().max_attempts() < 2) {
    problems.Add("stall.action restart: restart.max_attempts must be 2 or more");
  }
}

// Whether a node knows the user, and lets it run there, is the node's to say.
void CheckUser(const std::string& user, const Caller& caller, Problems& problems) {
  if (user.empty() || user == caller.user) return;
  if (user.size() > kMaxUserBytes ||
      std::any_of(user.begin(), user.end(), [](unsigned char c) { return c <= ' '; })) {
    problems.Add("user: not the name of a user");
  } else if (!caller.admin) {
    problems.Add(fmt::format(
        "user: ranks of jobs that \"{}\" submits run as \"{}\"; only an admin may name another "
        "user, got \"{}\"",
        caller.user, caller.user, user));
  }
}

void CheckCheckNames(std::string_view where,
                     const google::protobuf::RepeatedPtrField<std::string>& names,
                     Problems& problems) {
  for (const std::string& name : names) {
    if (IsCheckName(name)) continue;
    std::vector<std::string_view> known;
    for (const CheckName& check : kCheckNames) known.push_back(check.name);
    problems.Add(fmt::format("{}: there is no check \"{}\"; there are {}", where, OneLine(name),
                             fmt::join(known, ", ")));
  }
}

}  // namespace

absl::Status CheckChoices(const v1::JobSpec& spec, const Caller& caller) {
  Problems problems;
  CheckUser(spec.user(), caller, problems);
  CheckCheckNames("checks.skip", spec.skip_checks(), problems);
  CheckCheckNames("checks.require", spec.require_checks(), problems);
  CheckEnv(spec.env(), problems);
  return problems.ToStatus();
}

absl::Status CheckSpec(const v1::JobSpec& spec, const Caller& caller) {
  Problems problems;
  CheckUser(spec.user(), caller, problems);
  if (spec.has_container()) {
    for (std::string& problem : ContainerProblems(spec.container())) {
      problems.Add(std::move(problem));
    }
  }
  if (spec.has_stall()) CheckStall(spec, problems);
  if (!spec.log_policies().empty()) problems.Unsupported("log_policies");
  CheckCheckNames("checks.skip", spec.skip_checks(), problems);
  CheckCheckNames("checks.require", spec.require_checks(), problems);
  CheckChoice("devices", spec.devices(), {"auto", "gaudi", "none"}, problems);
  CheckChoice("bind", spec.bind(), {"numa", "cores", "none"}, problems);
  if (!spec.bind_core_list().empty()) {
    const absl::StatusOr<std::string> cores = ParseCoreList(spec.bind_core_list());
    if (!cores.ok()) problems.Add(fmt::format("bind_core_list: {}", MessageOf(cores.status())));
    if (spec.bind() == "none") problems.Add("bind_core_list contradicts bind: none");
  }
  if (spec.has_restart()) CheckRestart(spec.restart(), problems);
  CheckDuration("grace", spec.has_grace(), spec.grace(), true, problems);
  CheckDuration("start_timeout", spec.has_start_timeout(), spec.start_timeout(), false, problems);
  CheckDuration("time_limit", spec.has_time_limit(), spec.time_limit(), false, problems);
  CheckDuration("device_wait", spec.has_device_wait(), spec.device_wait(), true, problems);
  CheckDuration("on_coordinator_loss", spec.on_coordinator_loss().has_stop_after(),
                spec.on_coordinator_loss().stop_after(), false, problems);
  CheckEnv(spec.env(), problems);
  for (const v1::NodeOverride& node : spec.node_overrides()) CheckEnv(node.env(), problems);
  // The planner knows what else is wrong, even without nodes. How many ranks a bare host gives is
  // known only when its node is.
  const bool sized = std::all_of(spec.hosts().begin(), spec.hosts().end(), [](const auto& host) {
    return host.slot_count() > 0 || !host.selected_slots().empty();
  });
  v1::JobSpec unsized;
  if (!sized) {
    unsized = spec;
    unsized.clear_expected_world_size();
  }
  const absl::StatusOr<v1::Plan> plan =
      muster::PlanJob(sized ? spec : unsized, {}, PlanDetail::kLayout);
  if (plan.status().code() == absl::StatusCode::kInvalidArgument) {
    problems.Add(std::string(MessageOf(plan.status())));
  }
  return problems.ToStatus();
}

std::vector<std::string> SpecWarnings(const v1::JobSpec& spec, Duration heartbeat_interval) {
  std::vector<std::string> warnings;
  const v1::CoordinatorLossPolicy& loss = spec.on_coordinator_loss();
  if (loss.has_stop_after() && ToDuration(loss.stop_after()) < 3 * heartbeat_interval) {
    warnings.push_back(fmt::format(
        "on_coordinator_loss: stop-after {} is less than three heartbeats ({}): a short delay may "
        "stop the ranks",
        DescribeDuration(ToDuration(loss.stop_after())), DescribeDuration(3 * heartbeat_interval)));
  }
  if (spec.has_container() && spec.has_stall() && spec.stall().action() != "none") {
    warnings.push_back(
        "stall: of ranks in containers of docker only output counts as a sign of life, because the "
        "containers are not processes of the node's agent");
  }
  return warnings;
}

}  // namespace muster
