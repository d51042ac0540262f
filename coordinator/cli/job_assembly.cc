#include "coordinator/cli/job_assembly.h"

#include <fmt/format.h>
#include <google/protobuf/util/time_util.h>
#include <sys/stat.h>

#include "common/base/annotate.h"
#include "common/config/text.h"
#include "coordinator/cli/input_file.h"
#include "coordinator/spec/container.h"
#include "coordinator/spec/hostfile.h"
#include "coordinator/spec/slurm_hosts.h"

namespace muster {
namespace {

// "run_clm" for "examples/run_clm.py": what a job is called when nobody named it.
std::string NameFrom(std::string_view target) {
  target = target.substr(target.rfind('/') + 1);
  if (target.ends_with(".py")) target.remove_suffix(3);
  return Printable(target, 64);
}

// Ranks that the hosts give, when the slots of all of them are known.
std::optional<uint64_t> KnownWorldSize(const v1::JobSpec& spec) {
  uint64_t ranks = 0;
  for (const v1::HostEntry& host : spec.hosts()) {
    const uint64_t slots = host.selected_slots().empty()
                               ? host.slot_count()
                               : static_cast<uint64_t>(host.selected_slots_size());
    if (slots == 0) return std::nullopt;
    ranks += slots;
  }
  return ranks;
}

// `a,b[1,2]` as lines of a hostfile.
std::string HostLines(std::string_view list) {
  std::string lines;
  int depth = 0;
  for (char c : list) {
    if (c == '[') ++depth;
    if (c == ']') --depth;
    lines += c == ',' && depth <= 0 ? '\n' : c;
  }
  return lines;
}

}  // namespace

google::protobuf::Duration ToProto(Duration duration) {
  return google::protobuf::util::TimeUtil::NanosecondsToDuration(duration.count());
}

Selection SelectionOf(const HostFlags& flags, const Selection& otherwise) {
  if (flags.include.empty() && flags.exclude.empty() && !flags.num_nodes && !flags.slots_per_node) {
    return otherwise;
  }
  Selection selection;
  selection.include = flags.include;
  selection.exclude = flags.exclude;
  selection.num_nodes = flags.num_nodes;
  selection.slots_per_node = flags.slots_per_node;
  return selection;
}

ListedHosts JobAssembly::Parse(std::string_view text, std::string_view file) {
  Diagnostics problems;
  ListedHosts list;
  list.hosts = ParseHostfile(text, file, problems);
  list.complete = problems.ok();
  for (Diagnostic& d : problems.errors) diagnostics_.Error(d.file, d.line, std::move(d.message));
  for (Diagnostic& d : problems.warnings) diagnostics_.Warn(d.file, d.line, std::move(d.message));
  diagnostics_.dropped_errors += problems.dropped_errors;
  diagnostics_.dropped_warnings += problems.dropped_warnings;
  return list;
}

ListedHosts JobAssembly::ReadHostfile(const std::string& shown, const std::string& path,
                                      const Origin& at) {
  const absl::StatusOr<std::string> text = ReadInputFile(path);
  if (text.ok()) return Parse(*text, shown);
  diagnostics_.Error(at,
                     fmt::format("hostfile {}: {}", Printable(shown), MessageOf(text.status())));
  return {{}, false};
}

std::optional<ListedHosts> JobAssembly::HostsOf(const HostFlags& flags) {
  if (flags.from_slurm) {
    if (flags.hosts || flags.hostfile) {
      diagnostics_.Error(Origin{"--hosts-from"}, "excludes --hostfile and --hosts");
      return ListedHosts{{}, false};
    }
    const absl::StatusOr<std::string> lines =
        SlurmHostfile({.nodes = client_.Get("SLURM_JOB_NODELIST").value_or(""),
                       .tasks = client_.Get("SLURM_TASKS_PER_NODE").value_or(""),
                       .asked_tasks = client_.Get("SLURM_NTASKS").value_or(""),
                       .gpus_per_node = client_.Get("SLURM_GPUS_PER_NODE").value_or(""),
                       .gpus = client_.Get("SLURM_GPUS").value_or(""),
                       .gpus_here = client_.Get("SLURM_GPUS_ON_NODE").value_or("")});
    if (lines.ok()) return Parse(*lines, "SLURM_JOB_NODELIST");
    diagnostics_.Error(Origin{"--hosts-from slurm"}, std::string(MessageOf(lines.status())));
    return ListedHosts{{}, false};
  }
  if (flags.hosts) return Parse(HostLines(*flags.hosts), "--hosts");
  if (!flags.hostfile) return std::nullopt;
  return ReadHostfile(*flags.hostfile, client_.Absolute(*flags.hostfile), Origin{"--hostfile"});
}

void JobAssembly::Select(const ListedHosts& hosts, const Selection& selection) {
  if (!hosts.complete || hosts.hosts.empty()) return;
  for (v1::HostEntry& host : SelectHosts(hosts.hosts, selection, diagnostics_)) {
    *spec().add_hosts() = std::move(host);
  }
}

void JobAssembly::SetLogDir(const std::string& shown, const std::string& path, const Origin& at) {
  struct stat file {};
  if (stat(path.c_str(), &file) == 0 && !S_ISDIR(file.st_mode)) {
    diagnostics_.Error(at, fmt::format("{} is not a folder", Printable(shown)));
    return;
  }
  job_.log_dir = path;
}

void JobAssembly::ApplyFlags(const RunFlags& flags) {
  v1::JobSpec& spec = job_.spec;
  if (!flags.name.empty()) spec.set_name(Printable(flags.name, 256));
  if (spec.name().empty()) spec.set_name(NameFrom(spec.program().target()));
  if (flags.grace) *spec.mutable_grace() = ToProto(*flags.grace);
  if (flags.start_timeout) *spec.mutable_start_timeout() = ToProto(*flags.start_timeout);
  if (flags.time_limit) *spec.mutable_time_limit() = ToProto(*flags.time_limit);
  if (flags.device_wait) *spec.mutable_device_wait() = ToProto(*flags.device_wait);
  if (!flags.devices.empty()) spec.set_devices(flags.devices);
  if (!flags.master_addr.empty()) spec.set_master_addr(Printable(flags.master_addr));
  if (flags.master_port) spec.set_master_port(*flags.master_port);
  if (!flags.container.empty()) {
    if (std::string problem = ImageProblem(flags.container); !problem.empty()) {
      diagnostics_.Error(Origin{"--container"}, std::move(problem));
    }
    spec.mutable_container()->set_image(flags.container);
  }
  if (!flags.python.empty()) spec.mutable_program()->set_interpreter(flags.python);
  if (!flags.log_dir.empty()) {
    SetLogDir(flags.log_dir, client_.Absolute(flags.log_dir), Origin{"--log_dir"});
  }
  job_.warnings.insert(job_.warnings.end(), flags.warnings.begin(), flags.warnings.end());
}

absl::StatusOr<BuiltJob> JobAssembly::Finish() {
  const v1::JobSpec& spec = job_.spec;
  const std::optional<uint64_t> ranks = KnownWorldSize(spec);
  if (diagnostics_.ok() && spec.expected_world_size() != 0 && ranks &&
      *ranks != spec.expected_world_size()) {
    diagnostics_.Error(
        Origin{"--world_size"},
        fmt::format("{} does not fit the hosts, which give {} ranks; leave it out, or "
                    "use --num_gpus for fewer slots of each host",
                    spec.expected_world_size(), *ranks));
  }
  if (!diagnostics_.ok()) return absl::InvalidArgumentError(diagnostics_.ErrorText());
  for (std::string& text : diagnostics_.WarningTexts()) job_.warnings.push_back(std::move(text));
  return std::move(job_);
}

}  // namespace muster
