#include "coordinator/cli/plan_json.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "coordinator/plan/env_text.h"

namespace muster {
namespace {

using Json = nlohmann::ordered_json;
using EnvAssignments = google::protobuf::RepeatedPtrField<v1::EnvAssignment>;

Json EnvJson(const EnvAssignments& env) {
  std::map<std::string, std::string> values;
  for (const v1::EnvAssignment& assignment : env) {
    values[assignment.name()] = ShownValue(assignment);
  }
  Json json = Json::object();
  for (auto& [name, value] : values) json[name] = std::move(value);
  return json;
}

Json ArgvJson(const v1::LaunchSpec& launch) {
  Json argv = Json::array();
  for (int i = 0; i <= launch.argv_size(); ++i) {
    if (i > 0 && static_cast<uint32_t>(i) == launch.local_rank_argument_index()) {
      argv.push_back("--local_rank=${LOCAL_RANK}");
    }
    if (i < launch.argv_size()) argv.push_back(launch.argv(i));
  }
  return argv;
}

const v1::NodeOverride* FindOverride(const v1::JobSpec& spec, const std::string& host) {
  for (const v1::NodeOverride& node : spec.node_overrides()) {
    if (node.host() == host) return &node;
  }
  return nullptr;
}

Json NodeJson(const v1::JobSpec& spec, const v1::PlannedNode& node) {
  Json json = {{"host", node.host()}, {"slots", node.launch().ranks_size()}};
  if (!node.node_id().empty()) json["node_id"] = node.node_id();
  if (const v1::NodeOverride* override = FindOverride(spec, node.host())) {
    if (!override->working_directory().empty()) json["cwd"] = override->working_directory();
    if (!override->interpreter().empty()) json["python"] = override->interpreter();
    if (!override->env().empty()) json["env"] = EnvJson(override->env());
  }
  return json;
}

Json ContainerJson(const v1::ContainerSpec& container) {
  Json options = Json::array();
  for (const std::string& option : container.options()) options.push_back(option);
  const auto or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  return {{"image", container.image()},
          {"engine", or_null(container.engine())},
          {"runtime", or_null(container.runtime())},
          {"privileged", container.privileged()},
          {"options", std::move(options)}};
}

// The argv that every host has but for its interpreter: that of a host without an override.
const v1::LaunchSpec* CommonLaunch(const v1::JobSpec& spec, const v1::Plan& plan) {
  for (const v1::PlannedNode& node : plan.nodes()) {
    const v1::NodeOverride* override = FindOverride(spec, node.host());
    if (override == nullptr || override->interpreter().empty()) return &node.launch();
  }
  return plan.nodes().empty() ? nullptr : &plan.nodes(0).launch();
}

}  // namespace

std::string PlanToJson(const v1::JobSpec& spec, const v1::Plan& plan,
                       std::span<const std::string> warnings) {
  Json json;
  json["name"] = spec.name();
  json["world_size"] = plan.world_size();
  json["master_addr"] = plan.master_addr().empty() ? Json() : Json(plan.master_addr());
  json["master_port"] = plan.master_port() == 0 ? Json() : Json(plan.master_port());
  const v1::LaunchSpec* launch = CommonLaunch(spec, plan);
  json["argv"] = launch != nullptr ? ArgvJson(*launch) : Json::array();
  json["cwd"] = spec.working_directory();
  json["env"] = EnvJson(spec.env());
  if (spec.has_container()) json["container"] = ContainerJson(spec.container());
  Json nodes = Json::array();
  Json ranks = Json::array();
  for (const v1::PlannedNode& node : plan.nodes()) {
    nodes.push_back(NodeJson(spec, node));
    for (const v1::RankSpec& rank : node.launch().ranks()) {
      ranks.push_back({{"rank", rank.rank()},
                       {"local_rank", rank.local_rank()},
                       {"node", node.host()},
                       {"device", rank.slot()}});
    }
  }
  json["nodes"] = std::move(nodes);
  json["ranks"] = std::move(ranks);
  Json all_warnings = Json::array();
  for (const std::string& warning : warnings) all_warnings.push_back(warning);
  for (const std::string& warning : plan.warnings()) all_warnings.push_back(warning);
  json["warnings"] = std::move(all_warnings);
  // Paths and arguments are bytes; what is not UTF-8 becomes U+FFFD.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace muster
