#include "coordinator/spec/job_yaml_sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/annotate.h"
#include "common/config/duration.h"
#include "common/config/text.h"
#include "coordinator/spec/container.h"
#include "coordinator/spec/env_file.h"
#include "coordinator/spec/host_list.h"
#include "coordinator/spec/host_name.h"
#include "coordinator/spec/hostfile.h"

namespace muster {
namespace {

constexpr int64_t kMaxAttempts = 1000;
// Most hosts and variables that node_env and node_overrides stand for together.
constexpr size_t kMaxNodeSettings = 200'000;

void SetDuration(Duration from, google::protobuf::Duration& to) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(from);
  to.set_seconds(seconds.count());
  to.set_nanos(static_cast<int32_t>((from - seconds).count()));
}

std::optional<uint32_t> ReadSlots(const YamlNode& node, std::string_view path, YamlReader& reader) {
  const std::optional<int64_t> slots = reader.Integer(node, path, 1, kMaxSlotsPerHost);
  if (!slots) return std::nullopt;
  return static_cast<uint32_t>(*slots);
}

// Slot numbers as a list or as text such as 0,4-7.
std::vector<uint32_t> ReadModules(const YamlNode& node, YamlReader& reader) {
  std::string text;
  if (node.kind == YamlNode::Kind::kSequence) {
    for (const YamlNode* item : reader.List(node, "modules", false)) {
      if (!text.empty()) text += ',';
      text += item->text;
    }
  } else {
    text = reader.Text(node, "modules").value_or("");
  }
  std::vector<uint32_t> modules;
  if (text.empty()) return modules;
  const std::string problem = ParseSlotList(text, kMaxSlotsPerHost, modules);
  if (!problem.empty()) reader.Error(node, "modules: " + problem);
  return modules;
}

}  // namespace

std::vector<v1::HostEntry> ReadHosts(const YamlNode& node, YamlReader& reader) {
  if (node.kind != YamlNode::Kind::kSequence) {
    reader.Error(node, "hosts must be a list such as [{host: node-1, slots: 8}]");
    return {};
  }
  if (node.items.empty()) reader.Error(node, "hosts names no host");
  HostList hosts(reader.file(), reader.diagnostics());
  for (const YamlNode* item : node.items) {
    HostLine line;
    line.line = item->line;
    if (item->kind == YamlNode::Kind::kScalar) {
      line.host = item->text;
      hosts.Add(line);
      continue;
    }
    const bool is_map = reader.Section(
        *item, "hosts",
        {{"host",
          [&](const YamlNode& value) {
            if (reader.Text(value, "host")) line.host = value.text;
          }},
         {"slots", [&](const YamlNode& value) { line.slots = ReadSlots(value, "slots", reader); }},
         {"max_slots",
          [&](const YamlNode& value) { line.max_slots = ReadSlots(value, "max_slots", reader); }},
         {"addr",
          [&](const YamlNode& value) {
            if (!reader.Text(value, "addr")) return;
            line.address = ParseOneHost(value.text);
            if (line.address.empty()) {
              reader.Error(value,
                           fmt::format("addr: {} is no host name or address", Quoted(value.text)));
            }
          }},
         {"port", [&](const YamlNode& value) { reader.Integer(value, "port", 0, 65535); }},
         {"modules", [&](const YamlNode& value) { line.modules = ReadModules(value, reader); }}});
    if (!is_map) continue;
    if (line.host.empty()) {
      reader.Error(*item, "a host needs the key 'host'");
      continue;
    }
    hosts.Add(line);
  }
  return hosts.Finish();
}

std::vector<v1::EnvAssignment> ReadEnv(const YamlNode& node, std::string_view path,
                                       v1::EnvLayer layer, bool for_all_hosts, YamlReader& reader) {
  std::vector<v1::EnvAssignment> env;
  const std::vector<YamlNode::Entry>* entries = reader.Map(node, path);
  if (entries == nullptr) return env;
  for (const auto& [key, value] : *entries) {
    const std::string& name = key->text;
    if (!IsValidEnvName(name)) {
      reader.Error(
          *key, fmt::format("{}: {} is no name of a variable (letters, digits and '_', not a digit "
                            "first)",
                            path, Quoted(name)));
      continue;
    }
    if (IsLauncherOwned(name)) {
      reader.Error(*key,
                   fmt::format("{}: the launcher sets {} for every rank (remove it)", path, name));
      continue;
    }
    if (value->kind == YamlNode::Kind::kSequence || value->kind == YamlNode::Kind::kMap) {
      reader.Error(*value,
                   fmt::format("{}.{} must be text (quote JSON)", path, Printable(name, 60)));
      continue;
    }
    if (for_all_hosts && IsPerHost(name)) {
      reader.Warn(*key, fmt::format("{}: {} belongs to one host, and now has the same value on all",
                                    path, name));
    }
    if (MentionsVariable(value->text)) {
      reader.Warn(*value, fmt::format("{}.{}: '$' stays text here, only env files expand variables",
                                      path, name));
    }
    env.push_back(
        LiteralEnv(name, value->text, layer, Origin{std::string(reader.file()), key->line}.Text()));
  }
  return env;
}

void NodeSettingsReader::Add(const YamlNode& key, const NodeSettings& settings,
                             std::vector<NodeSettings>& list) {
  HostPattern pattern = ParseHostPattern(key.text, budget_);
  if (!pattern.error.empty()) return reader_.Error(key, std::move(pattern.error));
  // Every host of a range gets a copy of its own, so that the sum has to be bounded.
  copies_ += pattern.hosts.size() * (1 + settings.env.size());
  if (copies_ > kMaxNodeSettings) {
    return reader_.Error(key, fmt::format("more than {} settings of hosts", kMaxNodeSettings));
  }
  for (std::string& host : pattern.hosts) {
    NodeSettings& added = list.emplace_back(settings);
    added.host = std::move(host);
    added.line = key.line;
  }
}

void NodeSettingsReader::ReadNodeEnv(const YamlNode& node) {
  const std::vector<YamlNode::Entry>* entries = reader_.Map(node, "node_env");
  if (entries == nullptr) return;
  for (const auto& [host, value] : *entries) {
    NodeSettings settings;
    settings.env = ReadEnv(*value, fmt::format("node_env.{}", Printable(host->text, 60)),
                           v1::ENV_LAYER_NODE, false, reader_);
    Add(*host, settings, from_env_);
  }
}

void NodeSettingsReader::ReadNodeOverrides(const YamlNode& node) {
  const std::vector<YamlNode::Entry>* entries = reader_.Map(node, "node_overrides");
  if (entries == nullptr) return;
  for (const auto& [host, value] : *entries) {
    const std::string path = fmt::format("node_overrides.{}", Printable(host->text, 60));
    NodeSettings settings;
    reader_.Section(
        *value, path,
        {{"python",
          [&](const YamlNode& v) { settings.python = reader_.Text(v, path + ".python"); }},
         {"cwd", [&](const YamlNode& v) { settings.cwd = reader_.Text(v, path + ".cwd"); }},
         {"env", [&](const YamlNode& v) {
            settings.env = ReadEnv(v, path + ".env", v1::ENV_LAYER_NODE, false, reader_);
          }}});
    Add(*host, settings, from_overrides_);
  }
}

std::vector<NodeSettings> NodeSettingsReader::Finish() {
  std::vector<NodeSettings> merged;
  absl::flat_hash_map<std::string, size_t> index;
  for (std::vector<NodeSettings>* list : {&from_env_, &from_overrides_}) {
    for (NodeSettings& settings : *list) {
      const auto [it, is_new] = index.try_emplace(HostKey(settings.host), merged.size());
      if (is_new) {
        merged.push_back(std::move(settings));
        continue;
      }
      NodeSettings& known = merged[it->second];
      if (settings.python) known.python = std::move(settings.python);
      if (settings.cwd) known.cwd = std::move(settings.cwd);
      for (v1::EnvAssignment& assignment : settings.env) known.env.push_back(std::move(assignment));
    }
  }
  return merged;
}

std::vector<ForwardRule> ReadForwardEnv(const YamlNode& node, YamlReader& reader) {
  std::vector<ForwardRule> rules;
  for (const YamlNode* item : reader.List(node, "forward_env", false)) {
    ForwardRule rule;
    if (!ParseForwardRule(item->text, rule)) {
      reader.Error(
          *item,
          fmt::format("forward_env: expected NAME, PREFIX_ or either with '-' in front, found {}",
                      Quoted(item->text)));
    } else if (!rule.is_prefix && !rule.removes && IsLauncherOwned(rule.pattern)) {
      reader.Error(*item,
                   fmt::format("forward_env: the launcher sets {} for every rank (remove it)",
                               rule.pattern));
    } else if (!rule.is_prefix && !rule.removes && IsPerHost(rule.pattern)) {
      reader.Error(
          *item, fmt::format("forward_env: {} belongs to one host and is never carried to another",
                             rule.pattern));
    } else {
      rules.push_back(std::move(rule));
    }
  }
  return rules;
}

v1::RestartPolicy ReadRestart(const YamlNode& node, YamlReader& reader) {
  v1::RestartPolicy policy;
  reader.Section(
      node, "restart",
      {{"max_attempts",
        [&](const YamlNode& value) {
          const auto attempts = reader.Integer(value, "restart.max_attempts", 0, kMaxAttempts);
          policy.set_max_attempts(static_cast<uint32_t>(attempts.value_or(0)));
        }},
       {"on",
        [&](const YamlNode& value) {
          for (const YamlNode* item : reader.List(value, "restart.on", false)) {
            const auto cause =
                reader.OneOf(*item, "every item of restart.on", {"node-lost", "rank-failed"});
            if (cause) policy.add_on(*cause);
          }
        }},
       {"spares", [&](const YamlNode& value) {
          const auto spares = reader.Integer(value, "restart.spares", 0, int64_t{kMaxHosts});
          policy.set_spares(static_cast<uint32_t>(spares.value_or(0)));
        }}});
  return policy;
}

v1::StallPolicy ReadStall(const YamlNode& node, YamlReader& reader) {
  v1::StallPolicy policy;
  bool has_after = false;
  const bool is_map =
      reader.Section(node, "stall",
                     {{"after",
                       [&](const YamlNode& value) {
                         has_after = true;
                         if (const auto after = reader.Length(value, "stall.after", true)) {
                           SetDuration(*after, *policy.mutable_after());
                         }
                       }},
                      {"action", [&](const YamlNode& value) {
                         const auto action = reader.OneOf(value, "stall.action",
                                                          {"none", "dump", "restart", "fail"});
                         if (action) policy.set_action(*action);
                       }}});
  if (is_map && !has_after) reader.Error(node, "stall needs the key 'after'");
  return policy;
}

std::vector<v1::LogPolicy> ReadLogPolicies(const YamlNode& node, YamlReader& reader) {
  std::vector<v1::LogPolicy> policies;
  if (node.kind != YamlNode::Kind::kSequence) {
    reader.Error(node,
                 "log_policies must be a list such as [{match: \"...\", action: exclude-node}]");
    return policies;
  }
  for (const YamlNode* item : node.items) {
    v1::LogPolicy& policy = policies.emplace_back();
    const size_t errors_before = reader.diagnostics().errors.size();
    const bool is_map = reader.Section(
        *item, "log_policies",
        {{"match",
          [&](const YamlNode& value) {
            policy.set_match(reader.Text(value, "log_policies.match").value_or(""));
          }},
         {"action", [&](const YamlNode& value) {
            const auto action = reader.OneOf(value, "log_policies.action", {"exclude-node"});
            if (action) policy.set_action(*action);
          }}});
    if (!is_map || reader.diagnostics().errors.size() != errors_before) continue;
    if (policy.match().empty())
      reader.Error(*item, "an item of log_policies needs the key 'match'");
    if (policy.action().empty())
      reader.Error(*item, "an item of log_policies needs the key 'action'");
  }
  return policies;
}

v1::ContainerSpec ReadContainer(const YamlNode& node, YamlReader& reader) {
  v1::ContainerSpec container;
  bool has_image = false;
  const auto check = [&](const YamlNode& value, std::string_view key, const std::string& problem) {
    if (!problem.empty()) reader.Error(value, fmt::format("{}: {}", key, problem));
  };
  const bool is_map = reader.Section(
      node, "container",
      {{"image",
        [&](const YamlNode& value) {
          has_image = true;
          const std::optional<std::string> image = reader.Text(value, "container.image");
          if (!image) return;
          check(value, "container.image", ImageProblem(*image));
          container.set_image(*image);
        }},
       {"runtime",
        [&](const YamlNode& value) {
          const std::optional<std::string> runtime = reader.Text(value, "container.runtime");
          if (!runtime) return;
          check(
              value, "container.runtime",
              ImageProblem(*runtime).empty() ? "" : Quoted(*runtime) + " is no name of a runtime");
          container.set_runtime(*runtime);
        }},
       {"engine",
        [&](const YamlNode& value) {
          container.set_engine(
              reader.OneOf(value, "container.engine", {"docker", "podman"}).value_or(""));
        }},
       {"privileged",
        [&](const YamlNode& value) {
          container.set_privileged(reader.OneOf(value, "container.privileged", {"true", "false"}) ==
                                   "true");
        }},
       {"options", [&](const YamlNode& value) {
          std::string before;
          const YamlNode* last = nullptr;
          for (const YamlNode* item : reader.List(value, "container.options", true)) {
            check(*item, "container.options", ContainerOptionProblem(item->text, before));
            before = item->text;
            container.add_options(item->text);
            last = item;
          }
          if (last != nullptr) {
            check(*last, "container.options", LastContainerOptionProblem(last->text));
          }
        }}});
  if (is_map && !has_image) reader.Error(node, "container needs the key 'image'");
  return container;
}

void ReadChecks(const YamlNode& node, YamlReader& reader, JobFile& job) {
  const YamlNode* require = nullptr;
  reader.Section(node, "checks",
                 {{"skip",
                   [&](const YamlNode& value) {
                     job.skip_checks = reader.TextList(value, "checks.skip", false);
                   }},
                  {"require", [&](const YamlNode& value) {
                     require = &value;
                     job.require_checks = reader.TextList(value, "checks.require", false);
                   }}});
  for (const std::string& check : job.require_checks) {
    if (std::find(job.skip_checks.begin(), job.skip_checks.end(), check) != job.skip_checks.end()) {
      reader.Error(*require, fmt::format("check {} is both skipped and required", Quoted(check)));
    }
  }
}

std::optional<CoordinatorLoss> ReadCoordinatorLoss(const YamlNode& node, YamlReader& reader) {
  const std::string text = reader.Text(node, "on_coordinator_loss").value_or("");
  if (text.empty()) return std::nullopt;
  if (text == "keep") return CoordinatorLoss{};
  constexpr std::string_view kStopAfter = "stop-after";
  std::string_view rest = text;
  if (!rest.starts_with(kStopAfter) || rest.size() == kStopAfter.size() ||
      !IsBlank(rest[kStopAfter.size()])) {
    reader.Error(node, fmt::format("on_coordinator_loss must be keep or 'stop-after 60s', found {}",
                                   Quoted(text)));
    return std::nullopt;
  }
  rest.remove_prefix(kStopAfter.size());
  const absl::StatusOr<Duration> after = ParseDuration(rest);
  if (!after.ok()) {
    reader.Error(node, fmt::format("on_coordinator_loss: {}", MessageOf(after.status())));
    return std::nullopt;
  }
  if (*after <= Duration::zero()) {
    reader.Error(node, "on_coordinator_loss: stop-after must be longer than nothing");
    return std::nullopt;
  }
  return CoordinatorLoss{*after};
}

}  // namespace muster
