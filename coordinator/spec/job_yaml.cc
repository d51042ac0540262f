#include "coordinator/spec/job_yaml.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "common/base/annotate.h"
#include "common/config/text.h"
#include "common/config/yaml_reader.h"
#include "common/config/yaml_tree.h"
#include "coordinator/spec/core_list.h"
#include "coordinator/spec/host_name.h"
#include "coordinator/spec/hostfile.h"
#include "coordinator/spec/job_yaml_sections.h"

namespace muster {
namespace {

constexpr size_t kMaxLabelBytes = 200;

class JobReader {
 public:
  JobReader(std::string_view file, JobFileHosts hosts, Diagnostics& diagnostics)
      : hosts_(hosts), reader_(file, diagnostics), nodes_(reader_) {
    job_.file = file;
  }

  JobFile Read(const YamlNode& root) {
    if (root.kind != YamlNode::Kind::kMap) {
      reader_.Error(root, "a job is a map of keys such as 'script: train.py'");
      return std::move(job_);
    }
    for (const auto& [key, value] : root.entries) job_.lines[key->text] = key->line;
    reader_.Section(root, "", Keys());
    job_.nodes = nodes_.Finish();
    CheckTogether();
    return std::move(job_);
  }

 private:
  using Key = YamlReader::Key;

  Key TextKey(std::string_view name, std::optional<std::string>& target, bool allow_empty = false) {
    return {name, [this, name, &target, allow_empty](const YamlNode& node) {
              target = reader_.Text(node, name, allow_empty);
            }};
  }

  Key CountKey(std::string_view name, std::optional<int>& target, int64_t max) {
    return {name, [this, name, &target, max](const YamlNode& node) {
              const std::optional<int64_t> value = reader_.Integer(node, name, 1, max);
              if (value) target = static_cast<int>(*value);
            }};
  }

  Key LengthKey(std::string_view name, std::optional<Duration>& target, bool positive) {
    return {name, [this, name, &target, positive](const YamlNode& node) {
              target = reader_.Length(node, name, positive);
            }};
  }

  Key ListKey(std::string_view name, std::vector<std::string>& target) {
    return {name, [this, name, &target](const YamlNode& node) {
              target = reader_.TextList(node, name, /*allow_empty_items=*/true);
            }};
  }

  Key WordKey(std::string_view name, std::optional<std::string>& target,
              std::vector<std::string_view> words) {
    return {name, [this, name, &target, words](const YamlNode& node) {
              target = reader_.OneOf(node, name, words);
            }};
  }

  // In the order of the reference page.
  std::vector<Key> Keys();
  std::vector<Key> PolicyKeys();
  void ReadName(const YamlNode& node);
  void ReadUser(const YamlNode& node);
  void ReadMasterAddr(const YamlNode& node);
  void ReadCoreList(const YamlNode& node);
  void CheckTogether();
  // Reports when not exactly one of several keys was written.
  void ExactlyOne(std::initializer_list<std::string_view> keys);
  void NotTogether(std::string_view first, std::string_view second);

  const JobFileHosts hosts_;
  YamlReader reader_;
  NodeSettingsReader nodes_;
  JobFile job_;
};

std::vector<YamlReader::Key> JobReader::Keys() {
  std::vector<Key> keys{
      {"name", [this](const YamlNode& node) { ReadName(node); }},
      TextKey("hostfile", job_.hostfile),
      {"hosts", [this](const YamlNode& node) { job_.hosts = ReadHosts(node, reader_); }},
      TextKey("include", job_.include),
      TextKey("exclude", job_.exclude),
      CountKey("num_nodes", job_.num_nodes, int64_t{kMaxHosts}),
      CountKey("slots_per_node", job_.slots_per_node, kMaxSlotsPerHost),
      TextKey("script", job_.script),
      TextKey("module", job_.module),
      {"command",
       [this](const YamlNode& node) {
         job_.command = reader_.TextList(node, "command", true);
         if (node.kind == YamlNode::Kind::kSequence &&
             (node.items.empty() || node.items.front()->text.empty())) {
           reader_.Error(node, "command must begin with a program");
         }
       }},
      ListKey("args", job_.args),
      TextKey("python", job_.python),
      TextKey("cwd", job_.cwd),
      {"user", [this](const YamlNode& node) { ReadUser(node); }},
      {"env",
       [this](const YamlNode& node) {
         job_.env = ReadEnv(node, "env", v1::ENV_LAYER_JOB, /*for_all_hosts=*/true, reader_);
       }},
      {"env_files",
       [this](const YamlNode& node) {
         for (const YamlNode* item : reader_.List(node, "env_files", false)) {
           job_.env_files.push_back({item->text, item->line});
         }
       }},
      {"forward_env",
       [this](const YamlNode& node) { job_.forward_env = ReadForwardEnv(node, reader_); }},
      {"node_env", [this](const YamlNode& node) { nodes_.ReadNodeEnv(node); }},
      {"node_overrides", [this](const YamlNode& node) { nodes_.ReadNodeOverrides(node); }},
      WordKey("devices", job_.devices, {"auto", "gaudi", "none"}),
      WordKey("bind", job_.bind, {"numa", "cores", "none"}),
      {"bind_core_list", [this](const YamlNode& node) { ReadCoreList(node); }},
      {"master_addr", [this](const YamlNode& node) { ReadMasterAddr(node); }},
  };
  for (Key& key : PolicyKeys()) keys.push_back(std::move(key));
  return keys;
}

std::vector<YamlReader::Key> JobReader::PolicyKeys() {
  return {
      {"master_port",
       [this](const YamlNode& node) {
         const std::optional<int64_t> port = reader_.Integer(node, "master_port", 0, 65535);
         if (port) job_.master_port = static_cast<uint32_t>(*port);
       }},
      LengthKey("grace", job_.grace, /*positive=*/false),
      LengthKey("start_timeout", job_.start_timeout, /*positive=*/true),
      LengthKey("time_limit", job_.time_limit, /*positive=*/true),
      LengthKey("device_wait", job_.device_wait, /*positive=*/false),
      {"on_coordinator_loss",
       [this](const YamlNode& node) {
         job_.on_coordinator_loss = ReadCoordinatorLoss(node, reader_);
       }},
      {"restart", [this](const YamlNode& node) { job_.restart = ReadRestart(node, reader_); }},
      {"stall", [this](const YamlNode& node) { job_.stall = ReadStall(node, reader_); }},
      {"log_policies",
       [this](const YamlNode& node) { job_.log_policies = ReadLogPolicies(node, reader_); }},
      {"checks", [this](const YamlNode& node) { ReadChecks(node, reader_, job_); }},
      {"container",
       [this](const YamlNode& node) { job_.container = ReadContainer(node, reader_); }},
      TextKey("log_dir", job_.log_dir),
      {"log_quota",
       [this](const YamlNode& node) {
         job_.log_quota = reader_.Bytes(node, "log_quota", kLeastLogQuota);
       }},
  };
}

void JobReader::ReadName(const YamlNode& node) {
  job_.name = reader_.Text(node, "name");
  if (!job_.name) return;
  if (job_.name->size() > kMaxLabelBytes) {
    reader_.Error(node, fmt::format("name is longer than {} bytes", kMaxLabelBytes));
  } else if (Printable(*job_.name) != *job_.name) {
    reader_.Error(node, fmt::format("name {} has control characters", Quoted(*job_.name)));
  }
}

void JobReader::ReadUser(const YamlNode& node) {
  job_.user = reader_.Text(node, "user");
  if (!job_.user) return;
  const bool valid =
      job_.user->front() != '-' && std::all_of(job_.user->begin(), job_.user->end(), [](char c) {
        return IsAlpha(c) || IsDigit(c) ||
               std::string_view("._-$@\\").find(c) != std::string_view::npos;
      });
  if (!valid) reader_.Error(node, fmt::format("user {} is no name of a user", Quoted(*job_.user)));
}

void JobReader::ReadMasterAddr(const YamlNode& node) {
  job_.master_addr = reader_.Text(node, "master_addr", /*allow_empty=*/true);
  if (!job_.master_addr || job_.master_addr->empty()) return;
  const std::string host = ParseOneHost(*job_.master_addr);
  if (host.empty()) {
    reader_.Error(
        node, fmt::format("master_addr: {} is no host name or address (the port has its own key, "
                          "master_port)",
                          Quoted(*job_.master_addr)));
    return;
  }
  job_.master_addr = host;
}

void JobReader::ReadCoreList(const YamlNode& node) {
  const std::optional<std::string> text = reader_.Text(node, "bind_core_list");
  if (!text) return;
  absl::StatusOr<std::string> list = ParseCoreList(*text);
  if (list.ok()) {
    job_.bind_core_list = *std::move(list);
  } else {
    reader_.Error(node, fmt::format("bind_core_list: {}", MessageOf(list.status())));
  }
}

void JobReader::ExactlyOne(std::initializer_list<std::string_view> keys) {
  std::vector<std::pair<int, std::string_view>> written;
  for (const std::string_view key : keys) {
    if (const auto it = job_.lines.find(key); it != job_.lines.end())
      written.emplace_back(it->second, key);
  }
  std::sort(written.begin(), written.end());
  if (written.empty()) {
    reader_.diagnostics().Error(job_.file, 0,
                                fmt::format("one of the keys {} is needed", fmt::join(keys, ", ")));
  }
  for (size_t i = 1; i < written.size(); ++i) {
    reader_.diagnostics().Error(
        job_.file, written[i].first,
        fmt::format("{} and {} (line {}) exclude each other", written[i].second, written[0].second,
                    written[0].first));
  }
}

void JobReader::NotTogether(std::string_view first, std::string_view second) {
  if (job_.lines.contains(first) && job_.lines.contains(second)) ExactlyOne({first, second});
}

void JobReader::CheckTogether() {
  ExactlyOne({"script", "module", "command"});
  if (hosts_ == JobFileHosts::kNeeded) {
    ExactlyOne({"hostfile", "hosts"});
  } else {
    NotTogether("hostfile", "hosts");
  }
  if (job_.bind_core_list && job_.bind == "none") {
    const Origin at = job_.At("bind_core_list");
    reader_.diagnostics().Error(at, "bind_core_list contradicts bind: none");
  }
  NotTogether("include", "exclude");
  for (const std::string_view choice : {"include", "exclude"}) {
    NotTogether(choice, "num_nodes");
    NotTogether(choice, "slots_per_node");
  }
}

}  // namespace

Origin JobFile::At(std::string_view key) const {
  const auto it = lines.find(key);
  return {file, it == lines.end() ? 0 : it->second};
}

Selection JobFile::HostSelection() const {
  Selection selection;
  selection.include = include.value_or("");
  selection.exclude = exclude.value_or("");
  selection.num_nodes = num_nodes;
  selection.slots_per_node = slots_per_node;
  selection.include_at = At("include");
  selection.exclude_at = At("exclude");
  selection.num_nodes_at = At("num_nodes");
  selection.slots_per_node_at = At("slots_per_node");
  return selection;
}

JobFile ParseJobYaml(std::string_view text, std::string_view file, Diagnostics& diagnostics,
                     JobFileHosts hosts) {
  const YamlTree tree = ParseYaml(text, file, kMaxJobFileBytes, diagnostics);
  if (tree.root == nullptr) {
    if (diagnostics.ok()) diagnostics.Error(file, 0, "the file is empty");
    JobFile job;
    job.file = file;
    return job;
  }
  return JobReader(file, hosts, diagnostics).Read(*tree.root);
}

}  // namespace muster
