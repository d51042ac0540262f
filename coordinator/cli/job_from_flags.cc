#include <fmt/format.h>

#include "common/config/text.h"
#include "coordinator/cli/env_layers.h"
#include "coordinator/cli/input_file.h"
#include "coordinator/cli/job_assembly.h"
#include "coordinator/cli/job_builder.h"
#include "coordinator/spec/env_file.h"

namespace muster {
namespace {

// The hosts of a job without a hostfile: this machine.
ListedHosts LocalHost(const SpawnFlags& flags, Diagnostics& diagnostics) {
  const HostFlags& hosts = flags.run.hosts;
  if (hosts.num_nodes.value_or(1) > 1) {
    diagnostics.Error("--num_nodes", 0,
                      fmt::format("{} nodes need a hostfile: --hostfile FILE or --hosts HOST,...",
                                  *hosts.num_nodes));
  }
  if (flags.world_size && hosts.slots_per_node && *flags.world_size != *hosts.slots_per_node) {
    diagnostics.Error(
        "--world_size", 0,
        fmt::format("{} contradicts --num_gpus {}: without a hostfile there is one host",
                    *flags.world_size, *hosts.slots_per_node));
  }
  v1::HostEntry host;
  host.set_host("localhost");
  // With a choice of slots the node says how many there are.
  const bool chooses_slots = !hosts.include.empty() || !hosts.exclude.empty();
  // Those of deepspeed are all that the machine has, of gaudi_spawn.py one. 0: all.
  const int all = flags.style == SpawnStyle::kDeepspeed ? 0 : 1;
  const int slots = flags.world_size.value_or(hosts.slots_per_node.value_or(all));
  if (!chooses_slots) host.set_slot_count(static_cast<uint32_t>(slots));
  return {{host}, true};
}

// The hosts of the file that deepspeed reads where none is named, if it is there.
std::optional<ListedHosts> DefaultHosts(const SpawnFlags& flags, JobAssembly& job) {
  if (flags.style != SpawnStyle::kDeepspeed) return std::nullopt;
  const std::string& path = flags.default_hostfile;
  if (absl::IsNotFound(ReadInputFile(path).status())) {
    job.notes().push_back(fmt::format(
        "no --hostfile is given and there is no {}: the job is for this machine", path));
    return std::nullopt;
  }
  job.notes().push_back(fmt::format("no --hostfile is given: reads {}", path));
  return job.ReadHostfile(path, path, Origin{"--hostfile"});
}

// What `source VENV/bin/activate` would do on the nodes: its programs first in PATH, and its name.
// The interpreter is the environment's own.
void EnterVenv(const std::string& script, const ClientEnv& client, v1::JobSpec& spec,
               Diagnostics& diagnostics) {
  if (script.empty()) return;
  constexpr std::string_view kActivate = "/bin/activate";
  const Origin at{"--venv_script"};
  const std::string path = client.Absolute(script);
  if (!path.ends_with(kActivate) || path.size() == kActivate.size()) {
    diagnostics.Error(
        at,
        fmt::format("{} is not the bin/activate of a virtual environment. Nothing is sourced on "
                    "the nodes; use --python /path/to/python and --env-file FILE",
                    Quoted(script)));
    return;
  }
  const std::string folder = path.substr(0, path.size() - kActivate.size());
  *spec.add_env() = LiteralEnv("VIRTUAL_ENV", folder, v1::ENV_LAYER_FORWARDED, at.Text());
  v1::EnvAssignment& search = *spec.add_env();
  search = LiteralEnv("PATH", folder + "/bin:", v1::ENV_LAYER_FORWARDED, at.Text());
  search.add_parts()->set_variable("PATH");
  spec.mutable_program()->set_interpreter(folder + "/bin/python");
}

}  // namespace

absl::StatusOr<BuiltJob> BuildFromFlags(const SpawnFlags& flags, const ClientEnv& client) {
  JobAssembly job(client);
  v1::JobSpec& spec = job.spec();
  v1::Program& program = *spec.mutable_program();
  program.set_kind(flags.no_python ? v1::Program::COMMAND
                   : flags.module  ? v1::Program::MODULE
                                   : v1::Program::SCRIPT);
  program.set_target(flags.target);
  for (const std::string& arg : flags.args) program.add_args(arg);
  program.set_local_rank_argument(flags.local_rank);
  program.set_interpreter(flags.default_python);
  spec.set_working_directory(client.Absolute(flags.run.cwd));
  spec.set_devices("auto");
  spec.set_bind(flags.bind.empty() ? "numa" : flags.bind);
  spec.set_bind_core_list(flags.bind_core_list);

  std::optional<ListedHosts> hosts = job.HostsOf(flags.run.hosts);
  if (!hosts) hosts = DefaultHosts(flags, job);
  Selection selection = SelectionOf(flags.run.hosts, {});
  if (!hosts) {
    job.SetForThisMachine();
    hosts = LocalHost(flags, job.diagnostics());
    selection.num_nodes.reset();
    if (selection.include.empty() && selection.exclude.empty()) selection.slots_per_node.reset();
  }
  if (flags.world_size) spec.set_expected_world_size(static_cast<uint32_t>(*flags.world_size));
  job.Select(*hosts, selection);

  EnvRequest request;
  request.folder = spec.working_directory();
  for (const std::string& file : flags.run.env_files) {
    request.files.push_back({file, client.Absolute(file), Origin{"--env-file"}});
  }
  request.forward = flags.run.forward_env;
  if (flags.use_deepspeed) request.pythonpath_folder = client.cwd;
  EnterVenv(flags.venv_script, client, spec, job.diagnostics());
  AddEnvLayers(client, request, *spec.mutable_env(), job.diagnostics(), job.notes());
  for (const std::string& variable : flags.run.env) {
    AddEnvFlag(variable, client, *spec.mutable_env(), job.diagnostics());
  }
  job.ApplyFlags(flags.run);
  return job.Finish();
}

}  // namespace muster
