#include "coordinator/cli/env_layers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "common/base/annotate.h"
#include "common/config/text.h"
#include "coordinator/cli/input_file.h"
#include "coordinator/spec/env_file.h"

namespace muster {
namespace {

using EnvAssignments = google::protobuf::RepeatedPtrField<v1::EnvAssignment>;

constexpr std::string_view kDefaultEnvFile = ".deepspeed_env";
constexpr char kShell[] = "submitting shell";

void Forward(const ClientEnv& client, const std::vector<ForwardRule>& rules, EnvAssignments& env,
             Diagnostics& diagnostics, std::vector<std::string>& notes) {
  // By name, so that a job does not depend on the order of the shell's environment.
  std::vector<std::pair<std::string_view, std::string_view>> variables;
  for (const auto& [name, value] : client.environ) {
    if (IsForwarded(name, rules)) variables.emplace_back(name, value);
  }
  std::stable_sort(variables.begin(), variables.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string_view> names;
  for (const auto& [name, value] : variables) {
    *env.Add() = LiteralEnv(name, value, v1::ENV_LAYER_FORWARDED, kShell);
    names.push_back(name);
  }
  if (!names.empty()) {
    notes.push_back(fmt::format("forwarded from this shell: {}", fmt::join(names, ", ")));
  }
  for (const ForwardRule& rule : rules) {
    if (rule.is_prefix || rule.removes) continue;
    if (IsLauncherOwned(rule.pattern) || IsPerHost(rule.pattern)) {
      diagnostics.Warn(
          "forward_env", 0,
          fmt::format("{} belongs to one host or rank and is not forwarded", rule.pattern));
    } else if (!client.Get(rule.pattern)) {
      diagnostics.Warn("forward_env", 0, fmt::format("{} is not set in this shell", rule.pattern));
    }
  }
}

// Where .deepspeed_env may be, the weaker first.
struct AutomaticFiles {
  std::vector<NamedFile> files;
  // Says that there is none, and where it could have been.
  std::string none;
};

AutomaticFiles FindAutomatic(const ClientEnv& client, const std::string& folder) {
  std::string name(client.Get("DS_ENV_FILE").value_or(""));
  if (name.empty()) name = kDefaultEnvFile;
  if (name.starts_with('/')) {
    return {{{name, name, Origin{"DS_ENV_FILE"}}}, fmt::format("no env file {}", Printable(name))};
  }
  AutomaticFiles found;
  std::string folders;
  if (!client.home.empty()) {
    found.files.push_back({"~/" + name, JoinPath(client.home, name), Origin{}});
    folders = client.home + " or ";
  }
  found.files.push_back({name, JoinPath(folder, name), Origin{}});
  found.none = fmt::format("no {} in {}", Printable(name), Printable(folders + folder));
  return found;
}

void Append(std::string_view content, const NamedFile& file, v1::EnvLayer layer,
            EnvAssignments& env, Diagnostics& diagnostics) {
  for (v1::EnvAssignment& assignment : ParseEnvFile(content, file.shown, layer, diagnostics)) {
    *env.Add() = std::move(assignment);
  }
}

}  // namespace

void AddEnvLayers(const ClientEnv& client, const EnvRequest& request, EnvAssignments& env,
                  Diagnostics& diagnostics, std::vector<std::string>& notes) {
  Forward(client, request.forward, env, diagnostics, notes);
  if (!request.pythonpath_folder.empty()) {
    v1::EnvAssignment& path = *env.Add();
    path = LiteralEnv("PYTHONPATH", request.pythonpath_folder + ":", v1::ENV_LAYER_FORWARDED,
                      "--use_deepspeed");
    path.add_parts()->set_variable("PYTHONPATH");
  }

  // A file that is named in env_files counts there and only there.
  std::set<std::string> seen;
  for (const NamedFile& file : request.files) seen.insert(FileIdentity(file.path));
  seen.erase("");
  std::vector<std::string> read;
  bool found = false;
  const AutomaticFiles automatic = FindAutomatic(client, request.folder);
  for (const NamedFile& file : automatic.files) {
    const std::string identity = FileIdentity(file.path);
    if (!identity.empty() && !seen.insert(identity).second) {
      found = true;
      continue;
    }
    const absl::StatusOr<std::string> content = ReadInputFile(file.path);
    if (absl::IsNotFound(content.status())) continue;
    found = true;
    if (!content.ok()) {
      diagnostics.Error(file.path, 0, std::string(MessageOf(content.status())));
      continue;
    }
    read.push_back(Printable(file.path));
    Append(*content, file, v1::ENV_LAYER_DEEPSPEED_ENV, env, diagnostics);
  }
  for (const NamedFile& file : request.files) {
    const absl::StatusOr<std::string> content = ReadInputFile(file.path);
    if (!content.ok()) {
      diagnostics.Error(file.at, fmt::format("env file {}: {}", Printable(file.shown),
                                             MessageOf(content.status())));
      continue;
    }
    read.push_back(Printable(file.path));
    Append(*content, file, v1::ENV_LAYER_ENV_FILE, env, diagnostics);
  }
  if (!read.empty()) notes.push_back(fmt::format("read env files: {}", fmt::join(read, ", ")));
  if (!found) notes.push_back(automatic.none);
}

void AddEnvFlag(std::string_view text, const ClientEnv& client, EnvAssignments& env,
                Diagnostics& diagnostics) {
  const size_t equals = text.find('=');
  const std::string_view name = text.substr(0, equals);
  const Origin at{"--env"};
  if (!IsValidEnvName(name)) {
    diagnostics.Error(at, fmt::format("{} is no name for an environment variable", Quoted(name)));
    return;
  }
  if (IsLauncherOwned(name)) {
    diagnostics.Error(at, fmt::format("{} is set by Muster for every rank; leave it out", name));
    return;
  }
  std::optional<std::string_view> value;
  if (equals != std::string_view::npos) {
    value = text.substr(equals + 1);
  } else {
    value = client.Get(name);
  }
  if (!value) {
    diagnostics.Error(at, fmt::format("{} is not set in this shell; write {}=VALUE", name, name));
    return;
  }
  *env.Add() = LiteralEnv(name, *value, v1::ENV_LAYER_JOB, at.Text());
}

}  // namespace muster
