#include "coordinator/plan/explain.h"

#include <fmt/format.h>

#include <map>

namespace muster {
namespace {

v1::EnvAssignment Assignment(std::string_view name, std::string_view value, v1::EnvLayer layer) {
  v1::EnvAssignment out;
  out.set_name(std::string(name));
  if (!value.empty()) out.add_parts()->set_literal(std::string(value));
  out.set_layer(layer);
  return out;
}

}  // namespace

std::vector<ExplainedVariable> ExplainRank(const v1::LaunchSpec& launch, const v1::RankSpec& rank,
                                           const std::optional<v1::Rendezvous>& rendezvous) {
  std::map<std::string, std::vector<v1::EnvAssignment>> variables;
  const auto add = [&](v1::EnvAssignment assignment) {
    variables[assignment.name()].push_back(std::move(assignment));
  };
  add(Assignment("PYTHONUNBUFFERED", "1", v1::ENV_LAYER_DEFAULT));
  for (const v1::EnvAssignment& assignment : launch.env()) add(assignment);
  for (const v1::EnvPair& pair : rank.env()) {
    add(Assignment(pair.name(), pair.value(), v1::ENV_LAYER_LAUNCHER));
  }
  const std::string address = rendezvous ? rendezvous->address() : launch.rendezvous().address();
  const uint32_t port = rendezvous ? rendezvous->port() : launch.rendezvous().port();
  add(Assignment("MASTER_ADDR", address, v1::ENV_LAYER_LAUNCHER));
  add(Assignment("MASTER_PORT", port == 0 ? "" : fmt::format_int(port).str(),
                 v1::ENV_LAYER_LAUNCHER));
  std::vector<ExplainedVariable> out;
  out.reserve(variables.size());
  for (auto& [name, settings] : variables) out.push_back({name, std::move(settings)});
  return out;
}

}  // namespace muster
