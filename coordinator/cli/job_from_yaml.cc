#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>
#include <fmt/format.h>

#include <span>

#include "common/base/annotate.h"
#include "common/config/text.h"
#include "coordinator/cli/env_layers.h"
#include "coordinator/cli/input_file.h"
#include "coordinator/cli/job_assembly.h"
#include "coordinator/cli/job_builder.h"
#include "coordinator/spec/host_name.h"
#include "coordinator/spec/job_yaml.h"

namespace muster {
namespace {

// Paths in a job file are relative to its folder. `shown` keeps the user's spelling of the folder.
struct JobPaths {
  std::string shown_folder;
  std::string folder;

  std::string Shown(const std::string& path) const {
    if (path.starts_with('/') || path.starts_with("~/")) return path;
    return shown_folder == "." ? path : JoinPath(shown_folder, path);
  }
  std::string Absolute(const std::string& path, const ClientEnv& client) const {
    return path == "~" || path.starts_with("~/") ? client.Absolute(path) : JoinPath(folder, path);
  }
};

void SetProgram(const JobFile& file, v1::Program& program) {
  std::span<const std::string> command(file.command);
  if (file.script) {
    program.set_kind(v1::Program::SCRIPT);
    program.set_target(*file.script);
  } else if (file.module) {
    program.set_kind(v1::Program::MODULE);
    program.set_target(*file.module);
  } else if (!command.empty()) {
    program.set_kind(v1::Program::COMMAND);
    program.set_target(command.front());
    for (const std::string& word : command.subspan(1)) program.add_args(word);
  }
  for (const std::string& arg : file.args) program.add_args(arg);
  if (file.python) program.set_interpreter(*file.python);
}

void SetPolicies(const JobFile& file, v1::JobSpec& spec) {
  if (file.name) spec.set_name(*file.name);
  if (file.user) spec.set_user(*file.user);
  spec.set_devices(file.devices.value_or("auto"));
  spec.set_bind(file.bind.value_or(file.bind_core_list ? "cores" : "numa"));
  spec.set_bind_core_list(file.bind_core_list.value_or(""));
  if (file.master_addr) spec.set_master_addr(*file.master_addr);
  if (file.master_port) spec.set_master_port(*file.master_port);
  if (file.grace) *spec.mutable_grace() = ToProto(*file.grace);
  if (file.start_timeout) *spec.mutable_start_timeout() = ToProto(*file.start_timeout);
  if (file.time_limit) *spec.mutable_time_limit() = ToProto(*file.time_limit);
  if (file.device_wait) *spec.mutable_device_wait() = ToProto(*file.device_wait);
  if (file.on_coordinator_loss && file.on_coordinator_loss->stop_after) {
    *spec.mutable_on_coordinator_loss()->mutable_stop_after() =
        ToProto(*file.on_coordinator_loss->stop_after);
  }
  if (file.restart) *spec.mutable_restart() = *file.restart;
  if (file.stall) *spec.mutable_stall() = *file.stall;
  for (const v1::LogPolicy& policy : file.log_policies) *spec.add_log_policies() = policy;
  for (const std::string& check : file.skip_checks) spec.add_skip_checks(check);
  for (const std::string& check : file.require_checks) spec.add_require_checks(check);
  if (file.log_quota) spec.set_log_quota_bytes(*file.log_quota);
  if (file.container) *spec.mutable_container() = *file.container;
}

void SetNodeOverrides(const JobFile& file, const JobPaths& paths, const ClientEnv& client,
                      const ListedHosts& all, JobAssembly& job) {
  absl::flat_hash_set<std::string> known;
  for (const v1::HostEntry& host : all.hosts) known.insert(HostKey(host.host()));
  absl::flat_hash_map<std::string, std::string> chosen;
  for (const v1::HostEntry& host : job.spec().hosts()) chosen[HostKey(host.host())] = host.host();
  for (const NodeSettings& node : file.nodes) {
    const std::string key = HostKey(node.host);
    if (all.complete && !known.contains(key)) {
      job.diagnostics().Error(file.file, node.line,
                              fmt::format("{} is no host of this job", Quoted(node.host)));
    }
    const auto host = chosen.find(key);
    if (host == chosen.end()) continue;
    v1::NodeOverride& override = *job.spec().add_node_overrides();
    override.set_host(host->second);
    for (const v1::EnvAssignment& assignment : node.env) *override.add_env() = assignment;
    if (node.cwd) override.set_working_directory(paths.Absolute(*node.cwd, client));
    if (node.python) override.set_interpreter(*node.python);
  }
}

}  // namespace

absl::StatusOr<BuiltJob> BuildFromYaml(const std::string& path, const RunFlags& flags,
                                       const ClientEnv& client) {
  JobAssembly job(client);
  const std::string job_path = client.Absolute(path);
  const absl::StatusOr<std::string> text = ReadInputFile(job_path, kMaxJobFileBytes);
  if (!text.ok())
    return absl::InvalidArgumentError(
        fmt::format("{}: {}", Printable(path), MessageOf(text.status())));
  const bool hosts_flagged = flags.hosts.hosts || flags.hosts.hostfile || flags.hosts.from_slurm;
  const JobFile file = ParseJobYaml(*text, path, job.diagnostics(),
                                    hosts_flagged ? JobFileHosts::kMayLack : JobFileHosts::kNeeded);
  const bool file_ok = job.diagnostics().ok();
  const JobPaths paths{FolderOf(path), FolderOf(job_path)};

  v1::JobSpec& spec = job.spec();
  SetProgram(file, *spec.mutable_program());
  SetPolicies(file, spec);
  spec.set_working_directory(paths.Absolute(file.cwd.value_or("."), client));
  if (!flags.cwd.empty()) spec.set_working_directory(client.Absolute(flags.cwd));
  if (file.log_dir && flags.log_dir.empty()) {
    job.SetLogDir(*file.log_dir, paths.Absolute(*file.log_dir, client), file.At("log_dir"));
  }

  std::optional<ListedHosts> hosts = job.HostsOf(flags.hosts);
  if (!hosts && file.hostfile) {
    hosts = job.ReadHostfile(paths.Shown(*file.hostfile), paths.Absolute(*file.hostfile, client),
                             file.At("hostfile"));
  }
  if (!hosts) hosts = ListedHosts{file.hosts, file_ok};
  job.Select(*hosts, SelectionOf(flags.hosts, file.HostSelection()));

  EnvRequest request;
  request.folder = spec.working_directory();
  for (const LocatedText& env_file : file.env_files) {
    request.files.push_back({paths.Shown(env_file.text), paths.Absolute(env_file.text, client),
                             Origin{file.file, env_file.line}});
  }
  for (const std::string& env_file : flags.env_files) {
    request.files.push_back({env_file, client.Absolute(env_file), Origin{"--env-file"}});
  }
  request.forward = file.forward_env;
  request.forward.insert(request.forward.end(), flags.forward_env.begin(), flags.forward_env.end());
  AddEnvLayers(client, request, *spec.mutable_env(), job.diagnostics(), job.notes());
  for (const v1::EnvAssignment& assignment : file.env) *spec.add_env() = assignment;
  for (const std::string& variable : flags.env) {
    AddEnvFlag(variable, client, *spec.mutable_env(), job.diagnostics());
  }
  SetNodeOverrides(file, paths, client, *hosts, job);
  job.ApplyFlags(flags);
  return job.Finish();
}

}  // namespace muster
