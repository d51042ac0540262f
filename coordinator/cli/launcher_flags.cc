#include "coordinator/cli/launcher_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "common/base/annotate.h"
#include "common/config/text.h"
#include "coordinator/cli/spawn_flags.h"
#include "coordinator/spec/core_list.h"

namespace muster {
namespace {

constexpr auto kGaudiSpawnNames = std::to_array<std::string_view>(
    {"world-size", "hostfile", "use-mpi", "use-deepspeed", "master-port"});

constexpr auto kDeepspeedNames = std::to_array<std::string_view>({"hostfile",
                                                                  "include",
                                                                  "exclude",
                                                                  "num-nodes",
                                                                  "min-elastic-nodes",
                                                                  "max-elastic-nodes",
                                                                  "num-gpus",
                                                                  "num-accelerators",
                                                                  "master-port",
                                                                  "master-addr",
                                                                  "node-rank",
                                                                  "launcher",
                                                                  "launcher-args",
                                                                  "module",
                                                                  "no-python",
                                                                  "no-local-rank",
                                                                  "no-ssh",
                                                                  "no-ssh-check",
                                                                  "force-multi",
                                                                  "save-pid",
                                                                  "enable-each-rank-log",
                                                                  "autotuning",
                                                                  "elastic-training",
                                                                  "bind-cores-to-rank",
                                                                  "bind-core-list",
                                                                  "ssh-port",
                                                                  "venv-script",
                                                                  "log-level",
                                                                  "quiet"});

constexpr auto kLaunchers =
    std::to_array<std::string_view>({"pdsh", "openmpi", "mvapich", "slurm", "mpich", "impi"});

constexpr char kAgentsStart[] = "the agents of the nodes start the ranks";
constexpr char kNoSsh[] = "there is no SSH here; agents connect to the coordinator";

std::string AnyValue(std::string_view) { return {}; }

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::string CheckLauncher(std::string_view value) {
  const std::string lower = Lower(value);
  if (std::find(kLaunchers.begin(), kLaunchers.end(), lower) != kLaunchers.end()) return {};
  return fmt::format("expected pdsh, openmpi, mvapich, slurm, mpich or impi, got {}",
                     Quoted(value));
}

std::string CheckPort(std::string_view value) {
  if (ParseNumber(value, 65535)) return {};
  return fmt::format("expected a port up to 65535, got {}", Quoted(value));
}

}  // namespace

std::span<const std::string_view> GaudiSpawnFlagNames() { return kGaudiSpawnNames; }
std::span<const std::string_view> DeepspeedFlagNames() { return kDeepspeedNames; }

LauncherFlags::LauncherFlags(Flags& flags, SpawnFlags& out) : flags_(flags), out_(out) {
  flags_.Text("enable-each-rank-log", "FOLDER", &rank_log_dir_, "the same as --log-dir");
  flags_.Switch("save-pid", &out_.save_pid,
                "write the id of this process to /tmp/ID.deepspeed while it runs");
  flags_.Text("venv-script", "VENV/bin/activate", &out_.venv_script,
              "run in this virtual environment of the nodes; nothing is sourced");
  AddBinding();
  AddWhatIsNotNeeded();
  AddWhatIsRefused();
}

void LauncherFlags::AddBinding() {
  flags_.Value(
      "bind", "numa|cores|none",
      [this](std::string_view value) -> std::string {
        if (value != "numa" && value != "cores" && value != "none") {
          return fmt::format("expected numa, cores or none, got {}", Quoted(value));
        }
        bind_ = std::string(value);
        return "";
      },
      "what ranks are bound to; default numa");
  flags_.Switch("bind-cores-to-rank", &bind_cores_, "the same as --bind cores");
  flags_.Value(
      "bind-core-list", "LIST",
      [this](std::string_view value) -> std::string {
        absl::StatusOr<std::string> list = ParseCoreList(value);
        if (!list.ok()) return std::string(MessageOf(list.status()));
        out_.bind_core_list = *std::move(list);
        return "";
      },
      "processors of each node to divide among its ranks: 0-9,20-29; binds to cores");
}

void LauncherFlags::AddWhatIsNotNeeded() {
  Ignored("launcher", "NAME", CheckLauncher, kAgentsStart);
  Ignored("no-ssh", "", AnyValue,
          "there is no SSH here; start the command once, not on every node");
  Ignored("no-ssh-check", "", AnyValue, kNoSsh);
  Ignored("ssh-port", "PORT", CheckPort, kNoSsh);
  Ignored("force-multi", "", AnyValue, "one host and many are run alike");
}

void LauncherFlags::AddWhatIsRefused() {
  Refused("node-rank", "N", {"-1"},
          "start the command once: it starts the ranks of all hosts (--include picks hosts)");
  Refused("launcher-args", "TEXT", {""},
          "there is no pdsh or mpirun to pass them to; use --env, --include or --log-dir");
  Refused("autotuning", "MODE", {""}, "run DeepSpeed's autotuner by itself and launch its result");
  Refused("elastic-training", "", {}, "the number of hosts is fixed; use --num-nodes or --include");
  Refused("min-elastic-nodes", "N", {"-1"}, "the number of hosts is fixed; use --num-nodes");
  Refused("max-elastic-nodes", "N", {"-1"}, "the number of hosts is fixed; use --num-nodes");
}

void LauncherFlags::Warn(std::string_view name, std::string_view why) {
  out_.run.warnings.push_back(fmt::format("--{} has no effect: {}", name, why));
}

void LauncherFlags::Ignored(std::string_view name, std::string placeholder, Flags::Setter check,
                            const std::string& why) {
  flags_.Value(
      name, std::move(placeholder),
      [this, name = std::string(name), check = std::move(check), why](std::string_view value) {
        std::string wrong = check(value);
        if (wrong.empty()) Warn(name, why);
        return wrong;
      },
      "no effect: " + why);
}

void LauncherFlags::Refused(std::string_view name, std::string placeholder,
                            std::vector<std::string> defaults, const std::string& hint) {
  flags_.Value(
      name, std::move(placeholder),
      [defaults = std::move(defaults), hint](std::string_view value) {
        const bool is_default =
            std::find(defaults.begin(), defaults.end(), value) != defaults.end();
        return is_default ? std::string() : "is not supported: " + hint;
      },
      "not supported: " + hint);
}

void LauncherFlags::Finish(std::vector<std::string>& problems) {
  // The string "None" is what deepspeed has for "not given".
  if (!rank_log_dir_.empty() && rank_log_dir_ != "None") {
    if (!out_.run.log_dir.empty() && out_.run.log_dir != rank_log_dir_) {
      problems.push_back("--log_dir and --enable_each_rank_log name different folders");
    }
    out_.run.log_dir = rank_log_dir_;
  }
  const bool asks_for_cores = bind_cores_ || !out_.bind_core_list.empty();
  if (asks_for_cores && bind_ == "none") {
    problems.push_back("--bind none contradicts --bind_cores_to_rank and --bind_core_list");
  }
  // What gaudi_spawn.py asks mpirun for: --bind-to core.
  out_.bind = !bind_.empty() ? bind_ : asks_for_cores || out_.use_mpi ? "cores" : "";
  if (out_.use_mpi) {
    out_.run.warnings.push_back(
        "--use_mpi: ranks are started without mpirun, so OMPI_* variables are not set and MPI_Init "
        "finds one process; RANK, WORLD_SIZE and the like are set, and ranks are bound to cores");
  }
  if (out_.save_pid && out_.run.detach) {
    Warn("save-pid", "with --detach no process is left to signal; use `coordinator cancel`");
    out_.save_pid = false;
  }
}

}  // namespace muster
