#include "coordinator/cli/spawn_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/base/annotate.h"
#include "common/config/text.h"
#include "coordinator/cli/launcher_flags.h"

namespace muster {
namespace {

constexpr int kMaxRanks = 1'000'000;

std::string UsageOf(SpawnStyle style) {
  const std::string_view name = style == SpawnStyle::kDeepspeed    ? "deepspeed"
                                : style == SpawnStyle::kGaudiSpawn ? "gaudi_spawn.py"
                                                                   : "spawn";
  return fmt::format("{} [flags] SCRIPT [ARGUMENT...]", name);
}

// Declares the flags of `spawn` for one parse. Members are what the setters point to.
class SpawnParser {
 public:
  explicit SpawnParser(SpawnStyle style) : flags_(UsageOf(style), kAbout) {
    out_.style = style;
    AddTargetFlags();
    AddRunFlags(flags_, out_.run);
    launcher_.emplace(flags_, out_);
    // Python's argparse takes the beginning of a name for the name; scripts rely on it.
    if (style != SpawnStyle::kDeepspeed)
      flags_.AllowShort(GaudiSpawnFlagNames(), style == SpawnStyle::kSpawn);
    if (style != SpawnStyle::kGaudiSpawn)
      flags_.AllowShort(DeepspeedFlagNames(), style == SpawnStyle::kSpawn);
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
  void CheckTogether(std::vector<std::string>& problems);

  Flags flags_;
  SpawnFlags out_;
  std::optional<LauncherFlags> launcher_;
  bool no_local_rank_ = false;
};

void SpawnParser::AddTargetFlags() {
  flags_.Switch("module", &out_.module, "SCRIPT is a module, as for python -m");
  flags_.Switch("no-python", &out_.no_python, "SCRIPT is a program; no interpreter");
  flags_.Value("world-size", "N", SetInt(&out_.world_size, 1, kMaxRanks),
               "ranks in all; with a hostfile it is checked");
  flags_.Switch("use-deepspeed", &out_.use_deepspeed,
                "as gaudi_spawn.py: also puts the current folder in front of PYTHONPATH");
  flags_.Switch("use-mpi", &out_.use_mpi,
                "as gaudi_spawn.py: binds ranks to cores; they are started without mpirun");
  const bool by_default = out_.style == SpawnStyle::kDeepspeed;
  flags_.Switch("local-rank", &out_.local_rank,
                by_default ? "insert --local_rank=N behind SCRIPT (the default)"
                           : "insert --local_rank=N behind SCRIPT");
  if (out_.style != SpawnStyle::kSpawn) {
    flags_.Text("default-python", "FILE", &out_.default_python,
                "interpreter where neither --python nor --venv-script says one");
  }
  flags_.Switch("no-local-rank", &no_local_rank_, by_default ? "do not" : "do not (the default)");
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
  launcher_->Finish(problems);
  if (out_.style == SpawnStyle::kDeepspeed) {
    out_.local_rank = !no_local_rank_;
    out_.use_deepspeed = true;
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
    problems.push_back(fmt::format("the script is missing: coordinator {}", UsageOf(out_.style)));
  }
  if (problems.empty()) return std::move(out_);
  return absl::InvalidArgumentError(fmt::format("{}", fmt::join(problems, "\n")));
}

}  // namespace

absl::StatusOr<SpawnFlags> ParseSpawnFlags(std::span<const std::string> arguments,
                                           SpawnStyle style) {
  return SpawnParser(style).Parse(arguments);
}

std::string SpawnHelp(SpawnStyle style) { return SpawnParser(style).Help(); }

}  // namespace muster
