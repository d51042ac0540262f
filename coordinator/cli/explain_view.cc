#include "coordinator/cli/explain_view.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "coordinator/cli/render.h"
#include "coordinator/plan/env_text.h"
#include "coordinator/plan/explain.h"
#include "coordinator/plan/plan_job.h"

namespace muster {
namespace {

using Json = nlohmann::ordered_json;

std::string PlaceOf(const v1::EnvAssignment& setting) {
  std::string text(LayerName(setting.layer()));
  if (!setting.source().empty()) text += fmt::format(" {}", setting.source());
  return text;
}

ShownVariable Show(const ExplainedVariable& variable) {
  ShownVariable shown;
  shown.value = ShownValue(variable.effective());
  shown.layer = std::string(LayerName(variable.effective().layer()));
  shown.source = variable.effective().source();
  for (size_t i = 0; i + 1 < variable.settings.size(); ++i) {
    shown.overridden.push_back(PlaceOf(variable.settings[i]));
  }
  return shown;
}

// A newline in a value must not look like another variable.
std::string OneLine(std::string_view text) {
  std::string line;
  for (const char c : text) {
    if (c == '\n') {
      line += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      line += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      line += c;
    }
  }
  return line;
}

std::string Quoted(std::string_view argument) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%";
  if (!argument.empty() && argument.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(argument);
  }
  std::string quoted = "'";
  for (const char c : argument) {
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return OneLine(quoted + "'");
}

std::string SetBy(const ShownVariable& variable) {
  std::string text = variable.layer;
  if (!variable.source.empty()) text += " " + variable.source;
  if (!variable.overridden.empty()) {
    text += fmt::format(" (over {})", fmt::join(variable.overridden, ", "));
  }
  return text;
}

// What the setting means, for a job that has not run.
std::string BindMeaning(std::string_view bind) {
  if (bind == "numa") return "by the card's NUMA node, known once nodes are prepared";
  if (bind == "cores") return "cores of its own, known once nodes are prepared";
  return "not bound";
}

std::string BindText(const RankExplanation& rank) {
  const std::string bind = rank.bind.empty() ? "none" : rank.bind;
  if (!rank.placement) return fmt::format("{}: {}", bind, BindMeaning(bind));
  const v1::RankPlacement& placement = *rank.placement;
  std::string text = fmt::format("{}: ", bind);
  if (placement.cpus().empty()) {
    text += "not bound";
  } else {
    text += fmt::format("processors {}", OneLine(placement.cpus()));
    if (placement.memory_node() >= 0) {
      text += fmt::format(", memory of NUMA node {}", placement.memory_node());
    }
  }
  if (!placement.reason().empty()) text += fmt::format(" ({})", OneLine(placement.reason()));
  return text;
}

std::string HeadOf(const RankExplanation& rank) {
  std::string command;
  for (const std::string& argument : rank.argv) {
    command += (command.empty() ? "" : " ") + Quoted(argument);
  }
  std::vector<std::vector<std::string>> rows;
  if (!rank.job_id.empty()) {
    rows.push_back({"job", rank.attempt == 0
                               ? fmt::format("{}, not placed on any node", rank.job_id)
                               : fmt::format("{}, attempt {}", rank.job_id, rank.attempt)});
  }
  rows.push_back({"rank", fmt::format("{}: local rank {} on {}, slot {}", rank.rank,
                                      rank.local_rank, rank.host, rank.slot)});
  rows.push_back({"because", rank.host_source.empty()
                                 ? "no hostfile was given"
                                 : fmt::format("{} lists {}", rank.host_source, rank.host)});
  rows.push_back({"command", command});
  rows.push_back({"cwd", OneLine(rank.cwd)});
  rows.push_back({"bind", BindText(rank)});
  return RenderTable(rows);
}

Json ToJson(const ShownVariable& variable) {
  return {{"value", variable.value},
          {"layer", variable.layer},
          {"source", variable.source.empty() ? Json(nullptr) : Json(variable.source)},
          {"overridden", variable.overridden}};
}

Json ToJson(const std::string& bind, const std::optional<v1::RankPlacement>& placement) {
  const bool bound = placement && !placement->cpus().empty();
  return {{"setting", bind.empty() ? "none" : bind},
          {"cpus", bound ? Json(placement->cpus()) : Json(nullptr)},
          {"memory_node",
           bound && placement->memory_node() >= 0 ? Json(placement->memory_node()) : Json(nullptr)},
          {"reason", placement ? Json(placement->reason()) : Json(nullptr)}};
}

Json ToJson(const RankExplanation& rank) {
  Json json = {{"job", rank.job_id.empty() ? Json(nullptr) : Json(rank.job_id)},
               {"attempt", rank.attempt == 0 ? Json(nullptr) : Json(rank.attempt)},
               {"rank", rank.rank},
               {"local_rank", rank.local_rank},
               {"node", rank.host},
               {"device", rank.slot},
               {"source", rank.host_source.empty() ? Json(nullptr) : Json(rank.host_source)},
               {"cwd", rank.cwd},
               {"argv", rank.argv},
               {"bind", ToJson(rank.bind, rank.placement)},
               {"env", Json::object()}};
  for (const auto& [name, variable] : rank.variables) json["env"][name] = ToJson(variable);
  return json;
}

std::string Text(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

// What the agent adds for a rank.
void AddIdentity(const StartedJob& job, const std::string& node_id, v1::RankSpec& rank) {
  const auto add = [&](const char* name, std::string value) {
    v1::EnvPair& pair = *rank.add_env();
    pair.set_name(name);
    pair.set_value(std::move(value));
  };
  add("MUSTER_JOB_ID", job.job_id);
  add("MUSTER_ATTEMPT", fmt::format("{}", job.attempt));
  add("MUSTER_NODE", node_id);
}

// The same, of a rank that was bound.
void AddThreads(const v1::RankPlacement& placement, v1::RankSpec& rank) {
  if (placement.omp_num_threads() == 0) return;
  v1::EnvPair& pair = *rank.add_env();
  pair.set_name("OMP_NUM_THREADS");
  pair.set_value(fmt::format("{}", placement.omp_num_threads()));
}

// What the node has filled in because nobody had set it.
void AddFilled(const StartedJob& job, const std::string& host, RankExplanation& shown) {
  const auto found = job.filled.find(host);
  if (found == job.filled.end()) return;
  for (const FilledVariable& filled : found->second) {
    ShownVariable variable;
    variable.value = filled.value;
    variable.layer = std::string(LayerName(v1::ENV_LAYER_AGENT));
    variable.source = filled.source;
    shown.variables.emplace(filled.name, std::move(variable));
  }
}

// Keeps of both only the variables that are not the same in value and origin.
void KeepDifferent(RankExplanation* a, RankExplanation* b) {
  for (auto it = a->variables.begin(); it != a->variables.end();) {
    const auto other = b->variables.find(it->first);
    if (other != b->variables.end() && other->second.value == it->second.value) {
      b->variables.erase(other);
      it = a->variables.erase(it);
    } else {
      ++it;
    }
  }
}

}  // namespace

std::optional<RankExplanation> Explain(const v1::JobSpec& spec, const v1::Plan& plan, uint32_t rank,
                                       const std::optional<StartedJob>& started) {
  for (int i = 0; i < plan.nodes_size(); ++i) {
    const v1::PlannedNode& node = plan.nodes(i);
    for (const v1::RankSpec& candidate : node.launch().ranks()) {
      if (candidate.rank() != rank) continue;
      RankExplanation shown;
      shown.rank = rank;
      shown.local_rank = candidate.local_rank();
      shown.slot = candidate.slot();
      shown.host = node.host();
      if (i < spec.hosts_size()) shown.host_source = spec.hosts(i).source();
      shown.cwd = node.launch().working_directory();
      shown.argv.assign(node.launch().argv().begin(), node.launch().argv().end());
      shown.bind = node.launch().bind();
      if (const uint32_t index = node.launch().local_rank_argument_index(); index != 0) {
        shown.argv.insert(
            shown.argv.begin() + static_cast<ptrdiff_t>(std::min<size_t>(index, shown.argv.size())),
            fmt::format("--local_rank={}", candidate.local_rank()));
      }
      v1::LaunchSpec launch = node.launch();
      launch.clear_env();
      AddEnvironment(spec, node.host(), launch);
      v1::RankSpec own = candidate;
      std::optional<v1::Rendezvous> rendezvous;
      if (started) {
        shown.job_id = started->job_id;
        shown.attempt = started->attempt;
        rendezvous = started->rendezvous;
        if (const auto found = started->placements.find(rank); found != started->placements.end()) {
          shown.placement = found->second;
          AddThreads(found->second, own);
        }
        if (started->attempt != 0) AddIdentity(*started, node.node_id(), own);
      }
      for (const ExplainedVariable& variable : ExplainRank(launch, own, rendezvous)) {
        shown.variables.emplace(variable.name, Show(variable));
      }
      if (started) AddFilled(*started, node.host(), shown);
      return shown;
    }
  }
  return std::nullopt;
}

std::string RenderExplanations(std::span<const RankExplanation> ranks) {
  std::string text;
  for (const RankExplanation& rank : ranks) {
    if (!text.empty()) text += "\n";
    text += HeadOf(rank) + "\n";
    std::vector<std::vector<std::string>> rows = {{"VARIABLE", "SET BY", "VALUE"}};
    for (const auto& [name, variable] : rank.variables) {
      const bool later = variable.value.empty() && name.starts_with("MASTER_");
      rows.push_back(
          {name, SetBy(variable), later ? "(chosen at the start)" : OneLine(variable.value)});
    }
    text += RenderTable(rows);
  }
  return text;
}

std::string RenderDiff(const RankExplanation& a, const RankExplanation& b) {
  RankExplanation left = a;
  RankExplanation right = b;
  KeepDifferent(&left, &right);
  std::map<std::string, int> names;
  for (const auto& [name, variable] : left.variables) names[name] = 0;
  for (const auto& [name, variable] : right.variables) names[name] = 0;
  std::vector<std::vector<std::string>> rows = {
      {"VARIABLE", fmt::format("RANK {} ({})", a.rank, a.host), "SET BY",
       fmt::format("RANK {} ({})", b.rank, b.host), "SET BY"}};
  for (const auto& [name, unused] : names) {
    std::vector<std::string> row = {name};
    for (const RankExplanation* side : {&left, &right}) {
      const auto it = side->variables.find(name);
      row.push_back(it == side->variables.end() ? "(not set)" : OneLine(it->second.value));
      row.push_back(it == side->variables.end() ? "" : SetBy(it->second));
    }
    rows.push_back(std::move(row));
  }
  if (a.cwd != b.cwd) rows.push_back({"(cwd)", OneLine(a.cwd), "", OneLine(b.cwd), ""});
  return RenderTable(rows);
}

std::string ExplanationsToJson(std::span<const RankExplanation> ranks) {
  Json list = Json::array();
  for (const RankExplanation& rank : ranks) list.push_back(ToJson(rank));
  return Text({{"ranks", std::move(list)}});
}

std::string DiffToJson(const RankExplanation& a, const RankExplanation& b) {
  RankExplanation left = a;
  RankExplanation right = b;
  KeepDifferent(&left, &right);
  return Text({{"a", ToJson(left)}, {"b", ToJson(right)}});
}

}  // namespace muster
