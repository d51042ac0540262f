// The parts of job.yaml that have keys of their own. Used by job_yaml.cc only. Pure.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <string>
#include <vector>

#include "common/config/yaml_reader.h"
#include "coordinator/spec/host_name.h"
#include "coordinator/spec/job_yaml.h"

namespace muster {

// `hosts`: names, or maps with host, slots, max_slots, addr, port and modules.
std::vector<v1::HostEntry> ReadHosts(const YamlNode& node, YamlReader& reader);

// `env` and the like: one assignment per entry. With `for_all_hosts`, values that belong to one
// host are warned about.
std::vector<v1::EnvAssignment> ReadEnv(const YamlNode& node, std::string_view path,
                                       v1::EnvLayer layer, bool for_all_hosts, YamlReader& reader);

// `node_env` and `node_overrides`, together.
class NodeSettingsReader {
 public:
  explicit NodeSettingsReader(YamlReader& reader) : reader_(reader) {}

  void ReadNodeEnv(const YamlNode& node);
  void ReadNodeOverrides(const YamlNode& node);
  // Every host, in the order of its first mention; `node_env` before `node_overrides`.
  std::vector<NodeSettings> Finish();

 private:
  // Adds `settings` to every host that `key` names.
  void Add(const YamlNode& key, const NodeSettings& settings, std::vector<NodeSettings>& list);

  YamlReader& reader_;
  // Hosts that ranges may still stand for.
  size_t budget_ = kMaxHosts;
  // Hosts and variables so far, every host of a range counted.
  size_t copies_ = 0;
  std::vector<NodeSettings> from_env_;
  std::vector<NodeSettings> from_overrides_;
};

std::vector<ForwardRule> ReadForwardEnv(const YamlNode& node, YamlReader& reader);
v1::RestartPolicy ReadRestart(const YamlNode& node, YamlReader& reader);
v1::StallPolicy ReadStall(const YamlNode& node, YamlReader& reader);
std::vector<v1::LogPolicy> ReadLogPolicies(const YamlNode& node, YamlReader& reader);
v1::ContainerSpec ReadContainer(const YamlNode& node, YamlReader& reader);
void ReadChecks(const YamlNode& node, YamlReader& reader, JobFile& job);
// `keep` or `stop-after 60s`.
std::optional<CoordinatorLoss> ReadCoordinatorLoss(const YamlNode& node, YamlReader& reader);

}  // namespace muster
