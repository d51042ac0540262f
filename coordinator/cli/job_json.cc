#include "coordinator/cli/job_json.h"

#include <google/protobuf/util/time_util.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "common/base/filled_trait.h"
#include "common/base/signal_names.h"
#include "coordinator/cli/exit_status.h"
#include "coordinator/cli/names.h"
#include "coordinator/cli/node_view.h"
#include "coordinator/cli/summary.h"

namespace muster {
namespace {

using Json = nlohmann::ordered_json;

// "RANK_FAILED" becomes "rank-failed"; the value for unknown becomes "unknown".
std::string Word(std::string_view name) {
  if (name.empty() || name.ends_with("_UNSPECIFIED")) return "unknown";
  std::string word;
  for (char c : name) {
    word.push_back(c == '_' ? '-' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
  }
  return word;
}

Json TimeOf(const google::protobuf::Timestamp& time) {
  if (time.seconds() == 0 && time.nanos() == 0) return nullptr;
  return google::protobuf::util::TimeUtil::ToString(time);
}

Json StringsOf(const google::protobuf::RepeatedPtrField<std::string>& strings) {
  Json list = Json::array();
  for (const std::string& text : strings) list.push_back(text);
  return list;
}

// Every key is always there, so that a reader need not ask.
void AddStatus(const v1::ExitStatus& status, Json* json) {
  Json& out = *json;
  out["exit_code"] = nullptr;
  out["signal"] = nullptr;
  out["signal_name"] = nullptr;
  out["exec_error"] = nullptr;
  switch (status.outcome_case()) {
    case v1::ExitStatus::kExitCode:
      out["exit_code"] = status.exit_code();
      break;
    case v1::ExitStatus::kSignal:
      out["signal"] = status.signal();
      out["signal_name"] = SignalName(status.signal());
      break;
    case v1::ExitStatus::kExecFailure:
      out["exec_error"] = {{"step", status.exec_failure().step()},
                           {"errno", status.exec_failure().error_number()},
                           {"message", status.exec_failure().message()}};
      break;
    default:
      break;
  }
  out["oom_killed"] = status.oom_killed();
  out["core_dumped"] = status.core_dumped();
  if (!status.card_problem().empty()) out["card_problem"] = status.card_problem();
}

Json NodeOf(const v1::JobNode& node) {
  Json json;
  json["host"] = node.host();
  json["node_id"] = node.node_id().empty() ? Json(nullptr) : Json(node.node_id());
  json["phase"] = PhaseWord(node.phase());
  json["suspect"] = node.suspect();
  json["problems"] = Json::array();
  for (const v1::Problem& problem : node.problems()) {
    json["problems"].push_back({{"check", problem.check()}, {"message", problem.message()}});
  }
  json["filled_env"] = Json::object();
  for (const v1::NodeTrait& trait : node.report().traits()) {
    const std::optional<FilledVariable> filled = ParseFilledTrait(trait.name(), trait.value());
    if (filled)
      json["filled_env"][filled->name] = {{"value", filled->value}, {"source", filled->source}};
  }
  return json;
}

Json PlacementOf(const v1::JobRank& rank) {
  if (!rank.has_placement()) return nullptr;
  const v1::RankPlacement& placement = rank.placement();
  const bool bound = !placement.cpus().empty();
  return {{"cpus", bound ? Json(placement.cpus()) : Json(nullptr)},
          {"memory_node",
           bound && placement.memory_node() >= 0 ? Json(placement.memory_node()) : Json(nullptr)},
          {"omp_num_threads",
           placement.omp_num_threads() != 0 ? Json(placement.omp_num_threads()) : Json(nullptr)},
          {"reason", placement.reason()}};
}

Json RankOf(const v1::Job& job, const v1::JobRank& rank) {
  Json json;
  json["rank"] = rank.rank();
  json["host"] = HostOf(job, rank.rank());
  json["local_rank"] = rank.local_rank();
  json["slot"] = rank.slot();
  json["state"] = RankWord(rank.state());
  json["pid"] = rank.pid() > 0 ? Json(rank.pid()) : Json(nullptr);
  AddStatus(rank.status(), &json);
  json["start_time"] = TimeOf(rank.start_time());
  json["end_time"] = TimeOf(rank.end_time());
  json["lost_reason"] = rank.lost_reason().empty() ? Json(nullptr) : Json(rank.lost_reason());
  json["placement"] = PlacementOf(rank);
  json["log"] = {{"complete", rank.log_closed()},
                 {"written_bytes", rank.written_bytes()},
                 {"dropped_bytes", rank.dropped_bytes()},
                 {"stored_bytes", rank.stored_log_bytes()}};
  return json;
}

Json FailureOf(const v1::Failure& failure) {
  Json json;
  json["rank"] = failure.has_rank() ? Json(failure.rank()) : Json(nullptr);
  json["host"] = failure.host();
  json["pid"] = failure.pid() > 0 ? Json(failure.pid()) : Json(nullptr);
  AddStatus(failure.status(), &json);
  json["time"] = TimeOf(failure.time());
  json["message"] = failure.message();
  return json;
}

Json HeadOf(const v1::Job& job, int exit_status) {
  Json json;
  json["job_id"] = job.job_id();
  json["name"] = job.name();
  json["state"] = StateWord(job.state());
  json["cause"] =
      job.cause() == v1::Job::CAUSE_UNSPECIFIED ? Json(nullptr) : Json(CauseWord(job.cause()));
  json["exit_status"] = IsTerminal(job) ? Json(exit_status) : Json(nullptr);
  json["reason"] = job.reason();
  json["attempt"] = job.attempt();
  json["world_size"] = job.world_size();
  json["create_time"] = TimeOf(job.create_time());
  json["start_time"] = TimeOf(job.start_time());
  json["end_time"] = TimeOf(job.end_time());
  return json;
}

std::string Text(const Json& json, int indent) {
  // Text of users and nodes need not be UTF-8; what is not is replaced.
  return json.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string StateWord(v1::Job::State state) { return Word(v1::Job::State_Name(state)); }
std::string CauseWord(v1::Job::Cause cause) { return Word(v1::Job::Cause_Name(cause)); }
std::string PhaseWord(v1::JobNode::Phase phase) { return Word(v1::JobNode::Phase_Name(phase)); }
std::string RankWord(v1::JobRank::State state) { return Word(v1::JobRank::State_Name(state)); }
std::string NodeWord(v1::Node::State state) { return Word(v1::Node::State_Name(state)); }

std::string JobToJson(const v1::Job& job, int indent) {
  Json json = HeadOf(job, ExitStatusOf(job));
  const bool met = !job.rendezvous().address().empty();
  json["master_addr"] = met ? Json(job.rendezvous().address()) : Json(nullptr);
  json["master_port"] = met ? Json(job.rendezvous().port()) : Json(nullptr);
  json["first_failure"] = job.has_first_failure() ? FailureOf(job.first_failure()) : Json(nullptr);
  json["stopped_ranks"] = job.stopped_ranks();
  json["warnings"] = StringsOf(job.warnings());
  json["nodes"] = Json::array();
  for (const v1::JobNode& node : job.nodes()) json["nodes"].push_back(NodeOf(node));
  json["ranks"] = Json::array();
  for (const v1::JobRank& rank : job.ranks()) json["ranks"].push_back(RankOf(job, rank));
  return Text(json, indent);
}

std::string JobsToJson(std::span<const v1::Job> jobs) {
  Json list = Json::array();
  for (const v1::Job& job : jobs) list.push_back(HeadOf(job, ExitStatusInList(job)));
  return Text({{"jobs", std::move(list)}}, 2);
}

std::string NodesToJson(const v1::ListNodesResponse& nodes) {
  Json list = Json::array();
  for (const v1::Node& node : nodes.nodes()) {
    Json json;
    json["node_id"] = node.node_id();
    json["state"] = NodeWord(node.state());
    json["hostname"] = node.facts().hostname();
    json["fqdn"] = node.facts().fqdn();
    json["addresses"] = StringsOf(node.facts().addresses());
    json["slots"] =
        Json(std::vector<uint32_t>(node.facts().slots().begin(), node.facts().slots().end()));
    json["slots_are_cards"] = node.facts().slots_are_cards();
    json["cards"] = CardsToJson(node);
    json["cards_read"] = TimeOf(node.readings_time());
    Json problems = Json::array();
    for (const v1::Problem& problem : node.facts().devices().problems()) {
      problems.push_back(problem.message());
    }
    json["card_problems"] = std::move(problems);
    json["cpu_count"] = node.facts().cpu_count();
    json["memory_bytes"] = node.facts().memory_bytes();
    json["agent_version"] = node.facts().agent_version();
    json["last_seen"] = TimeOf(node.last_seen());
    json["boot_id"] = node.boot_id();
    json["reason"] = node.reason();
    json["clock_offset_seconds"] =
        node.has_clock_offset() ? Json(SecondsOf(node.clock_offset())) : Json(nullptr);
    json["alarms"] = StringsOf(node.alarms());
    json["jobs"] = StringsOf(node.job_ids());
    list.push_back(std::move(json));
  }
  return Text({{"nodes", std::move(list)}}, 2);
}

std::string LogLineToJson(const LogLine& line, std::string_view host) {
  Json json;
  json["rank"] = line.rank;
  json["host"] = std::string(host);
  json["stream"] = line.stream == LogStream::kStdout ? "stdout" : "stderr";
  json["time"] = TimeOf(google::protobuf::util::TimeUtil::NanosecondsToTimestamp(line.time_ns));
  json["text"] = line.text;
  return Text(json, -1);
}

std::string JobIdToJson(std::string_view job_id) {
  return Text({{"job_id", std::string(job_id)}}, 2);
}

}  // namespace muster
