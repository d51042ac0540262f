#include "agent/core/compose.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "common/base/cpu_list.h"

namespace muster {
namespace {

// Ordered, so that equal inputs give equal bytes.
using Environment = VariableMap;

constexpr std::array<std::string_view, 13> kServiceNames = {
    "CACHE_DIRECTORY",
    "CONFIGURATION_DIRECTORY",
    "CREDENTIALS_DIRECTORY",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "LOGS_DIRECTORY",
    "MAINPID",
    "MANAGERPID",
    "MONITOR_EXIT_CODE",
    "NOTIFY_SOCKET",
    "RUNTIME_DIRECTORY",
    "STATE_DIRECTORY",
    "SYSTEMD_EXEC_PID",
};
constexpr std::array<std::string_view, 3> kServicePrefixes = {"GRPC_", "LISTEN_", "WATCHDOG_"};
// Stale in another working directory; and what comes with ShimRun, once it is known.
constexpr std::array<std::string_view, 4> kNotInherited = {"MASTER_ADDR", "MASTER_PORT", "OLDPWD",
                                                           "PWD"};

// Of the agent's user, who is another one than the ranks'.
constexpr std::array<std::string_view, 12> kPersonalNames = {
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "HOME",
    "KRB5CCNAME",
    "LOGNAME",
    "MAIL",
    "SHELL",
    "TMPDIR",
    "USER",
    "USERNAME",
    "XAUTHORITY",
    "_",
};
constexpr std::array<std::string_view, 3> kPersonalPrefixes = {"SSH_", "SUDO_", "XDG_"};

bool Contains(auto& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool HasPrefix(auto& prefixes, std::string_view name) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

Environment Inherited(const std::vector<std::string>& environ, const RunAs& user) {
  Environment env;
  for (const std::string& pair : environ) {
    const size_t equals = pair.find('=');
    // The C library's getenv takes the first of two equal names, so that one is inherited.
    if (equals == std::string::npos || equals == 0) continue;
    const std::string name = pair.substr(0, equals);
    if (IsServiceOwned(name) || Contains(kNotInherited, name)) continue;
    if (!user.self && IsPersonal(name)) continue;
    env.emplace(name, pair.substr(equals + 1));
  }
  if (!user.self) {
    env["HOME"] = user.home;
    env["USER"] = user.name;
    env["LOGNAME"] = user.name;
    env["SHELL"] = user.shell;
  }
  return env;
}

// The kernel takes at most 6 MiB of arguments and environment, and 128 KiB of one variable.
constexpr size_t kMaxEnvironmentBytes = size_t{8} << 20;
constexpr size_t kMaxExpandedBytes = size_t{1} << 20;

// What assignments are applied to.
struct Scope {
  Environment& env;
  // Where variables are looked up that `env` does not have; null: nowhere.
  const Environment* outer = nullptr;
  const std::string& home;
  // Variables that were looked up in `outer`: the assignments that did it, in words.
  std::vector<std::string> looked_outside;
};

std::string Where(const v1::EnvAssignment& assignment) {
  return assignment.source().empty()
             ? assignment.name()
             : fmt::format("{} ({})", assignment.name(), assignment.source());
}

// Nothing when expanding makes the value longer than kMaxExpandedBytes.
std::optional<std::string> Expand(const v1::EnvAssignment& assignment, Scope& scope) {
  std::string value;
  for (const v1::EnvPart& part : assignment.parts()) {
    switch (part.part_case()) {
      case v1::EnvPart::kLiteral:
        value += part.literal();
        break;
      case v1::EnvPart::kVariable: {
        const auto found = scope.env.find(part.variable());
        if (found != scope.env.end()) {
          value += found->second;
        } else if (scope.outer != nullptr) {
          const auto outer = scope.outer->find(part.variable());
          if (outer != scope.outer->end()) value += outer->second;
          scope.looked_outside.push_back(
              fmt::format("{} refers to {}", Where(assignment), part.variable()));
        }
        break;
      }
      case v1::EnvPart::kHome:
        if (part.home()) value += scope.home;
        break;
      case v1::EnvPart::PART_NOT_SET:
        break;
    }
    if (assignment.parts_size() > 1 && value.size() > kMaxExpandedBytes) return std::nullopt;
  }
  return value;
}

// Applies the assignments in order to `env`. A few lines like A=$A$A would fill the memory, so what
// can never be executed is refused as soon as it is met.
absl::Status Assign(const google::protobuf::RepeatedPtrField<v1::EnvAssignment>& assignments,
                    Scope& scope) {
  Environment& env = scope.env;
  size_t bytes = 0;
  for (const auto& [name, value] : env) bytes += name.size() + value.size();
  for (const v1::EnvAssignment& assignment : assignments) {
    std::optional<std::string> value = Expand(assignment, scope);
    if (!value.has_value()) {
      return absl::InvalidArgumentError(
          fmt::format("the environment variable {} is too long once it is expanded: over {} bytes",
                      Where(assignment), kMaxExpandedBytes));
    }
    std::string& old = env[assignment.name()];
    bytes += value->size() - old.size();
    old = *std::move(value);
    if (bytes > kMaxEnvironmentBytes) {
      return absl::InvalidArgumentError(
          fmt::format("the environment is too long once it is expanded: with {} over {} bytes",
                      Where(assignment), kMaxEnvironmentBytes));
    }
  }
  return absl::OkStatus();
}

std::vector<std::string> ArgvOf(const v1::LaunchSpec& launch, uint32_t local_rank) {
  std::vector<std::string> argv(launch.argv().begin(), launch.argv().end());
  if (launch.local_rank_argument_index() != 0) {
    const size_t index = std::min<size_t>(launch.local_rank_argument_index(), argv.size());
    argv.insert(argv.begin() + static_cast<int64_t>(index),
                fmt::format("--local_rank={}", local_rank));
  }
  return argv;
}

// Adds a variable at its place in the order of names, unless there is one.
void AddVariable(std::string_view name, std::string_view value, internal::ShimRank& rank) {
  const auto name_of = [](const std::string& pair) {
    return std::string_view(pair).substr(0, pair.find('='));
  };
  const auto begin = rank.mutable_env()->begin();
  const auto end = rank.mutable_env()->end();
  const auto place =
      std::find_if(begin, end, [&](const std::string& pair) { return name_of(pair) >= name; });
  if (place != end && name_of(*place) == name) return;
  const auto index = static_cast<int>(place - begin);
  rank.add_env(fmt::format("{}={}", name, value));
  std::rotate(rank.mutable_env()->begin() + index, rank.mutable_env()->end() - 1,
              rank.mutable_env()->end());
}

// What the launcher sets for one rank, on top of all else.
void SetOwned(const v1::RankSpec& spec, const ComposeContext& context, Environment& env) {
  for (const v1::EnvPair& pair : spec.env()) env[pair.name()] = pair.value();
  env["MUSTER_JOB_ID"] = context.attempt.job.value();
  env["MUSTER_ATTEMPT"] = fmt::format("{}", context.attempt.attempt);
  env["MUSTER_NODE"] = context.node.value();
}

// Images set these variables for all that runs in them; a service of a machine lacks what only
// logins get.
absl::Status FillFromProfile(const v1::LaunchSpec& launch, const ComposeContext& context,
                             Scope& scope, internal::ShimBootstrap& bootstrap) {
  if (context.devices == nullptr || context.devices->devices().empty()) return absl::OkStatus();
  google::protobuf::RepeatedPtrField<v1::EnvAssignment> missing;
  for (const v1::EnvAssignment& assignment : context.profile) {
    if (!scope.env.contains(assignment.name())) *missing.Add() = assignment;
  }
  if (absl::Status assigned = Assign(missing, scope); !assigned.ok()) return assigned;
  for (const v1::EnvAssignment& assignment : missing) {
    const bool job_decides = std::any_of(
        launch.env().begin(), launch.env().end(),
        [&](const v1::EnvAssignment& of_job) { return of_job.name() == assignment.name(); });
    if (job_decides) continue;
    internal::ShimFilled& filled = *bootstrap.add_filled();
    filled.set_name(assignment.name());
    filled.set_source(assignment.source());
  }
  return absl::OkStatus();
}

absl::Status AddEnvironments(const v1::LaunchSpec& launch, const ComposeContext& context,
                             internal::ShimBootstrap& bootstrap) {
  Environment env = Inherited(context.environ, context.user);
  Scope scope{.env = env, .home = context.user.self ? context.home : context.user.home};
  if (absl::Status filled = FillFromProfile(launch, context, scope, bootstrap); !filled.ok()) {
    return filled;
  }
  env.emplace("PYTHONUNBUFFERED", "1");
  if (absl::Status assigned = Assign(launch.env(), scope); !assigned.ok()) return assigned;
  env["PWD"] = launch.working_directory();
  for (int i = 0; i < launch.ranks_size(); ++i) {
    Environment own = env;
    SetOwned(launch.ranks(i), context, own);
    internal::ShimRank& rank = *bootstrap.mutable_ranks(i);
    for (const auto& [name, value] : own) rank.add_env(fmt::format("{}={}", name, value));
  }
  return absl::OkStatus();
}

absl::Status AddContainers(const v1::LaunchSpec& launch, const ComposeContext& context,
                           internal::ShimBootstrap& bootstrap) {
  ContainerContext container = {.attempt = context.attempt,
                                .node = context.node,
                                .user = context.user,
                                .own_uid = context.own_uid,
                                .own_gid = context.own_gid,
                                .state = context.state,
                                .host = context.container_host,
                                .devices = context.devices,
                                .engine_env = EngineEnvironment(context.environ, context.user)};
  absl::StatusOr<ChosenEngine> chosen = ChooseEngine(launch, container);
  if (!chosen.ok()) return chosen.status();
  internal::ShimEngine* const engine = &chosen->engine;
  if (!chosen->warning.empty()) bootstrap.add_warnings(chosen->warning);
  Environment env;
  env.emplace("PYTHONUNBUFFERED", "1");
  AddContainerDefaults(env);
  Scope scope{.env = env,
              .outer = &container.engine_env,
              .home = context.user.self ? context.home : context.user.home};
  if (absl::Status assigned = Assign(launch.env(), scope); !assigned.ok()) return assigned;
  if (const std::string ignored = SetCardVariables(launch, env); !ignored.empty()) {
    bootstrap.add_warnings(ignored);
  }
  if (!context.container_host.sysroot.empty() && launch.slots_are_cards() &&
      launch.container().runtime() == "habana") {
    bootstrap.add_warnings(
        "the cards of this node are simulated, which the runtime habana knows nothing of: without "
        "container.runtime their files are mounted");
  }
  for (const std::string& text : scope.looked_outside) {
    bootstrap.add_warnings(fmt::format(
        "{}, which is taken from the agent's environment and not from the image's", text));
  }
  const bool podman = engine->name() == "podman";
  if (!(podman ? context.container_host.podman : context.container_host.docker).has_init) {
    bootstrap.add_warnings(fmt::format(
        "{} has no init program here ({}): programs that do not handle SIGTERM themselves end only "
        "when they are killed after the grace",
        engine->name(), podman ? "catatonit" : "docker-init"));
  }
  for (int i = 0; i < launch.ranks_size(); ++i) {
    Environment own = env;
    SetOwned(launch.ranks(i), context, own);
    if (absl::Status contained =
            Contain(launch, container, *engine, own, *bootstrap.mutable_ranks(i));
        !contained.ok()) {
      return contained;
    }
  }
  *bootstrap.mutable_engine() = std::move(*engine);
  return absl::OkStatus();
}

// Whether ranks of this node will use the port beside the rendezvous port: what the ranks have
// counts, in a container not what the engine's client has.
bool WantsCompanionPort(const v1::LaunchSpec& launch, const internal::ShimBootstrap& bootstrap) {
  const std::string value = VariableOfFirstRank(launch, bootstrap, "PT_ENABLE_INTER_HOST_CACHING");
  return !value.empty() && value != "0" && value != "false";
}

uint64_t Milliseconds(const google::protobuf::Duration& duration) {
  if (duration.seconds() < 0 || duration.nanos() < 0) return 0;
  return static_cast<uint64_t>(duration.seconds()) * 1000 +
         static_cast<uint64_t>(duration.nanos()) / 1'000'000;
}

}  // namespace

VariableMap EngineEnvironment(const std::vector<std::string>& environ, const RunAs& user) {
  return Inherited(environ, user);
}

bool IsServiceOwned(std::string_view name) {
  if (Contains(kServiceNames, name)) return true;
  return HasPrefix(kServicePrefixes, name);
}

bool IsPersonal(std::string_view name) {
  return Contains(kPersonalNames, name) || HasPrefix(kPersonalPrefixes, name);
}

absl::StatusOr<internal::ShimBootstrap> ComposeBootstrap(const v1::LaunchSpec& launch,
                                                         const ComposeContext& context) {
  internal::ShimBootstrap bootstrap;
  bootstrap.set_format(1);
  bootstrap.set_job_id(context.attempt.job.value());
  bootstrap.set_attempt(context.attempt.attempt);
  bootstrap.set_node_id(context.node.value());
  bootstrap.set_reserve_port(launch.has_rendezvous());
  bootstrap.set_port(launch.rendezvous().port());
  bootstrap.set_working_directory(launch.working_directory());
  bootstrap.set_script(launch.script());
  bootstrap.set_lease_ms(static_cast<uint64_t>(context.lease.count()));
  bootstrap.set_grace_ms(launch.has_stop_grace() ? Milliseconds(launch.stop_grace()) : 30'000);
  bootstrap.set_log_quota_bytes(launch.log_quota_bytes() != 0 ? launch.log_quota_bytes()
                                                              : kDefaultLogQuotaBytes);
  bootstrap.set_holder(launch.holder());
  bootstrap.set_slots_are_cards(launch.slots_are_cards());
  bootstrap.set_device_wait_ms(launch.has_device_wait() ? Milliseconds(launch.device_wait())
                                                        : kDefaultDeviceWaitMs);
  bootstrap.set_stall_after_ms(Milliseconds(launch.stall_after()));
  if (context.fake_unkillable_rank) {
    bootstrap.set_has_fake_unkillable_rank(true);
    bootstrap.set_fake_unkillable_rank(*context.fake_unkillable_rank);
  }

  const RunAs& user = context.user;
  if (!user.self) {
    internal::ShimRunAs& run_as = *bootstrap.mutable_run_as();
    run_as.set_name(user.name);
    run_as.set_uid(user.uid);
    run_as.set_gid(user.gid);
    for (const gid_t group : user.groups) run_as.add_groups(group);
  }

  for (const v1::RankSpec& spec : launch.ranks()) {
    bootstrap.add_slots(spec.slot());
    internal::ShimRank& rank = *bootstrap.add_ranks();
    rank.set_rank(spec.rank());
    rank.set_slot(spec.slot());
    for (std::string& arg : ArgvOf(launch, spec.local_rank())) rank.add_argv(std::move(arg));
  }
  const absl::Status composed = launch.has_container()
                                    ? AddContainers(launch, context, bootstrap)
                                    : AddEnvironments(launch, context, bootstrap);
  if (!composed.ok()) return composed;
  bootstrap.set_reserve_companion_port(launch.has_rendezvous() &&
                                       WantsCompanionPort(launch, bootstrap));
  return bootstrap;
}

void ApplyPlacements(std::span<const v1::RankPlacement> placements,
                     internal::ShimBootstrap* bootstrap) {
  std::map<uint32_t, const v1::RankPlacement*> by_rank;
  for (const v1::RankPlacement& placement : placements) by_rank[placement.rank()] = &placement;
  for (internal::ShimRank& rank : *bootstrap->mutable_ranks()) {
    const auto found = by_rank.find(rank.rank());
    if (found == by_rank.end() || found->second->cpus().empty()) continue;
    const v1::RankPlacement& placement = *found->second;
    const absl::StatusOr<CpuList> cpus = ParseCpuList(placement.cpus());
    if (!cpus.ok()) continue;
    rank.mutable_cpus()->Assign(cpus->begin(), cpus->end());
    if (placement.memory_node() >= 0) {
      rank.set_has_memory_node(true);
      rank.set_memory_node(static_cast<uint32_t>(placement.memory_node()));
    }
    if (placement.omp_num_threads() != 0) {
      AddVariable("OMP_NUM_THREADS", fmt::format("{}", placement.omp_num_threads()), rank);
    }
  }
}

VariableMap VariablesOfFirstRank(const v1::LaunchSpec& launch,
                                 const internal::ShimBootstrap& bootstrap) {
  VariableMap variables;
  if (bootstrap.ranks().empty()) return variables;
  const internal::ShimRank& rank = bootstrap.ranks(0);
  if (launch.has_container()) return VariablesInContainer(launch, rank);
  for (const std::string& pair : rank.env()) {
    const size_t equals = pair.find('=');
    if (equals != std::string::npos) variables[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  return variables;
}

std::string VariableOfFirstRank(const v1::LaunchSpec& launch,
                                const internal::ShimBootstrap& bootstrap, std::string_view name) {
  const VariableMap variables = VariablesOfFirstRank(launch, bootstrap);
  const auto found = variables.find(name);
  return found == variables.end() ? "" : found->second;
}

std::string CheckOfComposing(const absl::Status& error) {
  if (absl::IsNotFound(error)) return "container-engine";
  return absl::IsFailedPrecondition(error) ? "container-devices" : "environment";
}

internal::ShimRun ComposeRun(const v1::Rendezvous& rendezvous) {
  internal::ShimRun run;
  run.add_env(fmt::format("MASTER_ADDR={}", rendezvous.address()));
  run.add_env(fmt::format("MASTER_PORT={}", rendezvous.port()));
  return run;
}

}  // namespace muster
