#include "coordinator/cli/run_flags.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "common/base/annotate.h"
#include "common/config/duration.h"
#include "common/config/text.h"

namespace muster {
namespace {

constexpr int kMaxCount = 1'000'000;

// Numbers of nodes and slots: -1 is what other launchers print for "not given".
Flags::Setter SetCount(std::optional<int>* out) {
  return [out](std::string_view value) -> std::string {
    if (value == "-1") {
      out->reset();
      return "";
    }
    return SetInt(out, 1, kMaxCount)(value);
  };
}

Flags::Setter SetOptionalText(std::optional<std::string>* out) {
  return [out](std::string_view value) -> std::string {
    if (value.empty()) return "needs a value that is not empty";
    *out = std::string(value);
    return "";
  };
}

Flags::Setter AddText(std::vector<std::string>* out) {
  return [out](std::string_view value) -> std::string {
    if (value.empty()) return "needs a value that is not empty";
    out->emplace_back(value);
    return "";
  };
}

Flags::Setter SetPort(std::optional<uint32_t>* out) {
  return [out](std::string_view value) -> std::string {
    const std::optional<uint64_t> port = ParseNumber(value, 65535);
    if (!port) return fmt::format("expected a port up to 65535, got {}", Quoted(value));
    *out = static_cast<uint32_t>(*port);  // 0: chosen and reserved at the start, as by default
    return "";
  };
}

Flags::Setter SetOutput(std::string* out) {
  return [out](std::string_view value) -> std::string {
    if (value != "text" && value != "json") {
      return fmt::format("expected text or json, got {}", Quoted(value));
    }
    *out = std::string(value);
    return "";
  };
}

Flags::Setter SetLogLevel(std::string* out) {
  return [out](std::string_view value) -> std::string {
    if (value == "debug" || value == "info" || value == "warning" || value == "error") {
      *out = std::string(value);
    } else if (value == "warn") {
      *out = "warning";
    } else if (value == "critical") {
      *out = "error";
    } else {
      return fmt::format("expected debug, info, warning or error, got {}", Quoted(value));
    }
    return "";
  };
}

Flags::Setter AddForwardRules(std::vector<ForwardRule>* out) {
  return [out](std::string_view value) -> std::string {
    for (const std::string_view piece : Split(value, ',')) {
      ForwardRule rule;
      if (!ParseForwardRule(Trim(piece), rule)) {
        return fmt::format("expected names or prefixes such as HCCL_ or WANDB*, got {}",
                           Quoted(piece));
      }
      out->push_back(std::move(rule));
    }
    return "";
  };
}

void AddHostFlags(Flags& flags, HostFlags& out) {
  flags.Value("hostfile,H", "FILE", SetOptionalText(&out.hostfile), "hosts and their slots");
  flags.Value("hosts", "HOST[,HOST...]", SetOptionalText(&out.hosts),
              "hosts, each as a line of a hostfile: 'node-[1-4] slots=8'");
  flags.Value(
      "hosts-from", "slurm",
      [&out](std::string_view value) -> std::string {
        out.from_slurm = value == "slurm";
        return out.from_slurm ? "" : fmt::format("expected slurm, got {}", Quoted(value));
      },
      "the hosts of the Slurm allocation that this runs in");
  flags.Text("include,i", "HOST[:SLOT,...][@...]", &out.include, "use only these hosts and slots");
  flags.Text("exclude,e", "HOST[:SLOT,...][@...]", &out.exclude, "leave out these hosts and slots");
  flags.Value("num-nodes", "N", SetCount(&out.num_nodes), "use the first N hosts");
  flags.Value("num-gpus", "N", SetCount(&out.slots_per_node), "use N slots of each host");
  flags.Value("num-accelerators", "N", SetCount(&out.slots_per_node), "the same");
}

}  // namespace

Flags::Setter SetDuration(std::optional<Duration>* out) {
  return [out](std::string_view value) -> std::string {
    const absl::StatusOr<Duration> duration = ParseDuration(value);
    if (!duration.ok()) return std::string(MessageOf(duration.status()));
    *out = *duration;
    return "";
  };
}

Flags::Setter SetInt(std::optional<int>* out, int min, int max) {
  return [=](std::string_view value) -> std::string {
    const std::optional<uint64_t> number = ParseNumber(value, static_cast<uint64_t>(max));
    if (!number || static_cast<int>(*number) < min) {
      return fmt::format("expected a whole number between {} and {}, got {}", min, max,
                         Quoted(value));
    }
    *out = static_cast<int>(*number);
    return "";
  };
}

void AddRunFlags(Flags& flags, RunFlags& out) {
  flags.Switch("local", &out.local, "run on this machine, one agent per host of the hostfile");
  flags.Text("sysroot", "DIR", &out.sysroot,
             "with --local: look for cards below DIR/HOST, else below DIR, a simulated node");
  flags.Text("server", "ADDRESS", &out.server, "coordinator to use");
  flags.Switch("dry-run", &out.dry_run, "print the plan as JSON and start nothing");
  flags.Switch("detach", &out.detach, "print the id of the job and leave");
  flags.Text("name", "TEXT", &out.name, "label of the job");
  AddHostFlags(flags, out.hosts);
  flags.Text("cwd", "FOLDER", &out.cwd, "working directory of the ranks");
  flags.Text("container", "IMAGE", &out.container, "run every rank in a container of this image");
  flags.Text("python", "FILE", &out.python, "interpreter for scripts and modules");
  flags.Value("env", "NAME[=VALUE]", AddText(&out.env),
              "set a variable, or pass on one of this shell");
  flags.Value("env-file", "FILE", AddText(&out.env_files), "read variables from a file");
  flags.Value("forward-env", "NAME|PREFIX_[,...]", AddForwardRules(&out.forward_env),
              "pass on more variables of this shell; -NAME keeps one back");
  flags.Text("master-addr", "ADDRESS", &out.master_addr, "address for MASTER_ADDR");
  flags.Value("master-port", "PORT", SetPort(&out.master_port), "port for MASTER_PORT");
  flags.Value("grace", "TIME", SetDuration(&out.grace), "between SIGTERM and SIGKILL; default 30s");
  flags.Value("timeout", "TIME", SetDuration(&out.start_timeout),
              "for all nodes to be there and prepared; default 5m");
  flags.Value("time-limit", "TIME", SetDuration(&out.time_limit),
              "longest time that ranks may run");
  flags.Value("device-wait", "TIME", SetDuration(&out.device_wait),
              "for cards that somebody still holds or that are in reset; default 5s");
  flags.Value(
      "devices", "auto|gaudi|none",
      [&out](std::string_view value) -> std::string {
        if (value != "auto" && value != "gaudi" && value != "none") {
          return fmt::format("expected auto, gaudi or none, got {}", Quoted(value));
        }
        out.devices = std::string(value);
        return "";
      },
      "whether ranks get Gaudi cards: where there are some, always, or never");
  flags.Text("log-dir", "FOLDER", &out.log_dir, "write the output of every rank there");
  flags.Value("output,o", "text|json", SetOutput(&out.output), "form of what is printed");
  flags.Value("log-level", "LEVEL", SetLogLevel(&out.log_level), "debug, info, warning or error");
  flags.Switch("quiet,q", &out.quiet, "print errors only");
}

absl::StatusOr<std::string> SysrootOf(const RunFlags& flags, bool local) {
  if (!local) {
    if (flags.sysroot.empty()) return "";
    return absl::InvalidArgumentError(
        "--sysroot works with --local only: agents that run already look where they were told to "
        "when they were started (agent run --sysroot DIR, or sysroot in agent.yaml)");
  }
  const char* variable = std::getenv("MUSTER_SYSROOT");
  const bool by_flag = !flags.sysroot.empty();
  const std::string root = by_flag ? flags.sysroot : variable != nullptr ? variable : "";
  if (root.empty()) return root;
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(root, error);
  const auto refuse = [&](std::string_view found) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: {} {}: name the folder of a simulated node, or {} to use the cards of this machine",
        by_flag ? "--sysroot" : "MUSTER_SYSROOT", Quoted(root), found,
        by_flag ? "leave the option out" : "unset the variable"));
  };
  if (error) return refuse(fmt::format("cannot be looked at ({})", error.message()));
  // Also what is a link to a folder; a search in it must be allowed.
  if (::access((absolute.string() + "/.").c_str(), R_OK | X_OK) == 0) return absolute.string();
  const int reason = errno;
  if (reason == ENOENT) return refuse("does not exist");
  if (reason == ENOTDIR) return refuse("is not a folder");
  return refuse(fmt::format("cannot be read ({})", MessageOf(ErrnoStatus(reason, "open"))));
}

}  // namespace muster
