#include "coordinator/cli/spawn_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/base/annotate.h"
#include "common/config/text.h"

namespace muster {
namespace {

constexpr int kMaxRanks = 1'000'000;

// Declares the flags of `spawn` for one parse. Members are what the setters point to.
class SpawnParser {
 public:
  SpawnParser() : flags_("spawn [flags] SCRIPT [ARGUMENT...]", kAbout) {
    AddTargetFlags();
    AddRunFlags(flags_, out_.run);
    AddLauncherFlags();
  }
  SpawnParser(const SpawnParser&) = delete;
  SpawnParser& operator=(const SpawnParser&) = delete;

  absl::StatusOr<SpawnFlags> Parse(std::span<const std::string> arguments);
  std::string Help() const { return flags_.Help(); }

 private:
  static constexpr char kAbout[] =
      "Runs a script on every slot of every host and follows it. Takes the flags of gaudi_spawn.py "
      "and\n"
      "of the deepspeed launcher. Everything behind SCRIPT is passed on as it is.";

  void AddTargetFlags();
  void AddLauncherFlags();
  // Declares a flag that is understood and does nothing here.
  void Ignored(std::string_view name, std::string placeholder, std::string why);
  // Declares a flag that cannot be honoured. Values in `defaults` mean that it was not given.
  void Refused(std::string_view name, std::string placeholder, std::vector<std::string> defaults,
               std::string hint);
  void CheckTogether(std::vector<std::string>& problems);

  Flags flags_;
  SpawnFlags out_;
  bool no_local_rank_ = false;
  std::string rank_log_dir_;
};

void SpawnParser::AddTargetFlags() {
  flags_.Switch("module", &out_.module, "SCRIPT is a module, as for python -m");
  flags_.Switch("no-python", &out_.no_python, "SCRIPT is a program; no interpreter");
  flags_.Value("world-size", "N", SetInt(&out_.world_size, 1, kMaxRanks),
               "ranks in all; with a hostfile it is checked");
  flags_.Switch("use-deepspeed", &out_.use_deepspeed,
                "as gaudi_spawn.py: also puts the current folder in front of PYTHONPATH");
  flags_.Switch("use-mpi", &out_.use_mpi, "as gaudi_spawn.py; ranks are started without mpirun");
  flags_.Switch("local-rank", &out_.local_rank, "insert --local_rank=N behind SCRIPT");
  flags_.Switch("no-local-rank", &no_local_rank_, "do not (the default)");
}

void SpawnParser::AddLauncherFlags() {
  flags_.Text("enable-each-rank-log", "FOLDER", &rank_log_dir_, "the same as --log-dir");
  flags_.Value(
      "bind-cores-to-rank", "",
      [this](std::string_view) {
        out_.bind = "cores";
        return std::string();
      },
      "bind ranks to cores");
  Ignored("bind-core-list", "LIST", "cores are not bound in this version");
  Ignored("launcher", "NAME", "the agents of the nodes start the ranks");
  Ignored("no-ssh", "", "there is no SSH here; start the command once, not on every node");
  Ignored("no-ssh-check", "", "there is no SSH here");
  Ignored("ssh-port", "PORT", "there is no SSH here; agents connect to the coordinator");
  Ignored("force-multi", "", "one host and many are run alike");
  Ignored("save-pid", "",
          "no pid file is written; use `coordinator status` and `coordinator cancel`");
  Refused("node-rank", "N", {"-1"},
          "start the command once: it starts the ranks of all hosts (--include picks hosts)");
  Refused("launcher-args", "TEXT", {""},
          "there is no pdsh or mpirun to pass them to; use --env, --include or --log-dir");
  Refused("venv-script", "FILE", {""},
          "nothing is sourced on the nodes; use --python /path/to/venv/bin/python and --env-file");
  Refused("autotuning", "MODE", {""}, "run DeepSpeed's autotuner by itself and launch its result");
  Refused("elastic-training", "", {}, "the number of hosts is fixed; use --num-nodes or --include");
  Refused("min-elastic-nodes", "N", {"-1"}, "the number of hosts is fixed; use --num-nodes");
  Refused("max-elastic-nodes", "N", {"-1"}, "the number of hosts is fixed; use --num-nodes");
}

void SpawnParser::Ignored(std::string_view name, std::string placeholder, std::string why) {
  flags_.Value(
      name, std::move(placeholder),
      [this, name = std::string(name), why](std::string_view) {
        out_.run.warnings.push_back(fmt::format("--{} has no effect: {}", name, why));
        return std::string();
      },
      "no effect: " + why);
}

void SpawnParser::Refused(std::string_view name, std::string placeholder,
                          std::vector<std::string> defaults, std::string hint) {
  flags_.Value(
      name, std::move(placeholder),
      [defaults = std::move(defaults), hint](std::string_view value) {
        const bool is_default =
            std::find(defaults.begin(), defaults.end(), value) != defaults.end();
        return is_default ? std::string() : "is not supported: " + hint;
      },
      "not supported: " + hint);
}

void SpawnParser::CheckTogether(std::vector<std::string>& problems) {
  if (out_.module && out_.no_python) {
    problems.push_back(
        "--module and --no_python exclude each other: a module needs python; for a program leave "
        "--module out");
  }
  if (out_.use_mpi && out_.use_deepspeed) {
    problems.push_back("--use_mpi and --use_deepspeed exclude each other");
  }
  if (out_.local_rank && no_local_rank_) {
    problems.push_back("--local_rank and --no_local_rank exclude each other");
  }
  if (out_.run.hosts.hostfile && out_.run.hosts.hosts) {
    problems.push_back("--hostfile and --hosts exclude each other");
  }
  // The string "None" is what deepspeed has for "not given".
  if (!rank_log_dir_.empty() && rank_log_dir_ != "None") {
    if (!out_.run.log_dir.empty() && out_.run.log_dir != rank_log_dir_) {
      problems.push_back("--log_dir and --enable_each_rank_log name different folders");
    }
    out_.run.log_dir = rank_log_dir_;
  }
  if (out_.use_mpi) {
    out_.run.warnings.push_back(
        "--use_mpi: ranks are started without mpirun, so OMPI_* variables are not set and MPI_Init "
        "finds "
        "one process; RANK, WORLD_SIZE and the like are set");
  }
}

absl::StatusOr<SpawnFlags> SpawnParser::Parse(std::span<const std::string> arguments) {
  const size_t script = flags_.FirstPositional(arguments);
  std::vector<std::string> problems;
  if (absl::Status parsed = flags_.Parse(arguments.first(script)); !parsed.ok()) {
    problems.emplace_back(MessageOf(parsed));
  }
  if (flags_.help_wanted()) {
    SpawnFlags help;
    help.help = true;
    return help;
  }
  CheckTogether(problems);
  if (script < arguments.size() && !arguments[script].empty()) {
    out_.target = arguments[script];
    out_.args.assign(arguments.begin() + static_cast<ptrdiff_t>(script) + 1, arguments.end());
  } else {
    problems.push_back("the script is missing: coordinator spawn [flags] SCRIPT [ARGUMENT...]");
  }
  if (problems.empty()) return std::move(out_);
  return absl::InvalidArgumentError(fmt::format("{}", fmt::join(problems, "\n")));
}

}  // namespace

absl::StatusOr<SpawnFlags> ParseSpawnFlags(std::span<const std::string> arguments) {
  return SpawnParser().Parse(arguments);
}

std::string SpawnHelp() { return SpawnParser().Help(); }

}  // namespace muster
