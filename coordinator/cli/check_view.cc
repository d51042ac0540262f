#include "coordinator/cli/check_view.h"

#include <fmt/format.h>
#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "coordinator/core/cluster_check.h"
#include "coordinator/spec/host_fold.h"

namespace muster {
namespace {

using Json = nlohmann::ordered_json;

std::string_view Word(v1::Verdict verdict) {
  switch (verdict) {
    case v1::PASS:
      return "ok";
    case v1::WARN:
      return "WARN";
    case v1::FAIL:
      return "FAIL";
    case v1::SKIPPED:
      return "skipped";
    default:
      return "unknown";
  }
}

std::string Line(std::string_view who, const v1::CheckResult& result) {
  const std::string fix = result.fix().empty() ? "" : fmt::format(" (fix: {})", result.fix());
  std::string text = fmt::format("[{}] {} {}: {}{}", who, Word(result.verdict()), result.check(),
                                 result.message(), fix);
  // What nodes send must not end a line, or steer a terminal.
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = ' ';
  }
  return text + "\n";
}

v1::CheckResult ContactFault(const v1::CheckedNode& node) {
  v1::CheckResult result;
  result.set_check("contact");
  result.set_verdict(v1::FAIL);
  result.set_message(node.error());
  return result;
}

bool HasFinding(const v1::NodeReport& report) {
  return std::any_of(report.results().begin(), report.results().end(), [](const auto& result) {
    return result.verdict() == v1::WARN || result.verdict() == v1::FAIL;
  });
}

double RateOf(const v1::CheckedPair& pair) {
  const double seconds =
      static_cast<double>(
          google::protobuf::util::TimeUtil::DurationToNanoseconds(pair.rate().duration())) /
      1e9;
  return seconds > 0 ? static_cast<double>(pair.rate().bytes()) / seconds : 0;
}

std::string RateText(double bytes_per_second) {
  return bytes_per_second >= 1e9 ? fmt::format("{:.1f} GB/s", bytes_per_second / 1e9)
                                 : fmt::format("{:.0f} MB/s", bytes_per_second / 1e6);
}

std::optional<double> MedianOf(const std::vector<v1::CheckedPair>& pairs) {
  std::vector<double> rates;
  for (const v1::CheckedPair& pair : pairs) {
    if (pair.has_rate()) rates.push_back(RateOf(pair));
  }
  if (rates.empty()) return std::nullopt;
  std::sort(rates.begin(), rates.end());
  return rates[rates.size() / 2];
}

std::string RenderNetwork(const std::vector<v1::CheckedPair>& pairs) {
  if (pairs.empty()) return "";
  std::string text;
  const std::optional<double> median = MedianOf(pairs);
  if (median) {
    text += fmt::format("network: median {} over {} directions\n", RateText(*median), pairs.size());
  }
  for (const v1::CheckedPair& pair : pairs) {
    const std::string who = fmt::format("{} -> {}", pair.from(), pair.to());
    v1::CheckResult result = pair.result();
    result.set_check("network");
    if (pair.has_rate() && median && RateOf(pair) < *median / 2) {
      result.set_verdict(v1::WARN);
      result.set_message(fmt::format("{}, less than half of the median", RateText(RateOf(pair))));
      result.set_fix("look at cables, switches and the speed of the interface between the two");
    }
    if (result.verdict() != v1::PASS) text += Line(who, result);
  }
  return text;
}

std::string RenderPairs(std::string_view program, const std::vector<PairResult>& pairs) {
  std::string text;
  size_t passed = 0;
  size_t tested = 0;
  for (const PairResult& pair : pairs) {
    if (!pair.second.empty()) ++tested;
    if (pair.result.verdict() == v1::PASS) {
      ++passed;
    } else {
      text +=
          Line(pair.second.empty() ? pair.first : fmt::format("{} <-> {}", pair.first, pair.second),
               pair.result);
    }
  }
  if (tested == 0) return text;
  return fmt::format("{}: {} of {} pairs passed\n", program, passed, tested) + text;
}

Json ResultToJson(const v1::CheckResult& result) {
  std::string word(Word(result.verdict()));
  std::transform(word.begin(), word.end(), word.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return {{"check", result.check()},
          {"verdict", word},
          {"message", result.message()},
          {"fix", result.fix()}};
}

Json PairsToJson(const std::vector<PairResult>& pairs) {
  Json list = Json::array();
  for (const PairResult& pair : pairs) {
    Json one = ResultToJson(pair.result);
    one["hosts"] = Json::array({pair.first});
    if (!pair.second.empty()) one["hosts"].push_back(pair.second);
    one["job_id"] = pair.job_id.empty() ? Json(nullptr) : Json(pair.job_id);
    list.push_back(std::move(one));
  }
  return list;
}

Json ResultsToJson(const v1::NodeReport& report) {
  Json results = Json::array();
  for (const v1::CheckResult& result : report.results()) results.push_back(ResultToJson(result));
  return results;
}

}  // namespace

void CheckedCluster::Take(v1::CheckNodesResponse found) {
  switch (found.what_case()) {
    case v1::CheckNodesResponse::kNode:
      nodes.push_back(std::move(*found.mutable_node()));
      break;
    case v1::CheckNodesResponse::kCluster:
      cluster = std::move(*found.mutable_cluster());
      break;
    case v1::CheckNodesResponse::kPair:
      pairs.push_back(std::move(*found.mutable_pair()));
      break;
    case v1::CheckNodesResponse::WHAT_NOT_SET:
      break;  // Of a newer version.
  }
}

void CheckedCluster::Sort() {
  std::sort(nodes.begin(), nodes.end(),
            [](const auto& a, const auto& b) { return a.host() < b.host(); });
  std::sort(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) {
    return std::pair(a.from(), a.to()) < std::pair(b.from(), b.to());
  });
}

bool CheckedCluster::failed() const {
  const auto fails = [](const v1::NodeReport& report) {
    return std::any_of(report.results().begin(), report.results().end(),
                       [](const auto& result) { return result.verdict() == v1::FAIL; });
  };
  const auto pair_fails = [](const PairResult& pair) { return pair.result.verdict() == v1::FAIL; };
  return fails(cluster) ||
         std::any_of(
             nodes.begin(), nodes.end(),
             [&](const auto& node) { return !node.error().empty() || fails(node.report()); }) ||
         std::any_of(ping_pongs.begin(), ping_pongs.end(), pair_fails) ||
         std::any_of(demos.begin(), demos.end(), pair_fails) ||
         std::any_of(pairs.begin(), pairs.end(),
                     [](const auto& pair) { return pair.result().verdict() == v1::FAIL; });
}

std::string RenderCheck(const CheckedCluster& found) {
  std::vector<std::string> good;
  std::vector<v1::NodeReport> reports;
  std::vector<ComparedNode> compared;
  reports.reserve(found.nodes.size());
  for (const v1::CheckedNode& node : found.nodes) {
    v1::NodeReport& report = reports.emplace_back(node.report());
    if (!node.error().empty()) *report.add_results() = ContactFault(node);
    if (!HasFinding(report)) good.push_back(node.host());
    compared.push_back({node.host(), &report, std::nullopt});
  }
  std::string text;
  if (!good.empty()) text += fmt::format("[{}] ok\n", FoldHosts(good));
  for (const v1::Verdict verdict : {v1::WARN, v1::FAIL}) {
    for (const FoldedResult& folded : FoldResults(compared, verdict)) {
      text += Line(FoldHosts(folded.hosts), folded.result);
    }
  }
  for (const v1::CheckResult& result : found.cluster.results()) text += Line("all", result);
  return text + RenderNetwork(found.pairs) + RenderPairs("fi_pingpong", found.ping_pongs) +
         RenderPairs("hccl_demo", found.demos);
}

std::string CheckToJson(const CheckedCluster& found) {
  Json json;
  json["ok"] = !found.failed();
  json["nodes"] = Json::array();
  for (const v1::CheckedNode& node : found.nodes) {
    Json traits = Json::object();
    for (const v1::NodeTrait& trait : node.report().traits()) traits[trait.name()] = trait.value();
    json["nodes"].push_back(
        {{"host", node.host()},
         {"node_id", node.node_id().empty() ? Json(nullptr) : Json(node.node_id())},
         {"error", node.error().empty() ? Json(nullptr) : Json(node.error())},
         {"results", ResultsToJson(node.report())},
         {"traits", std::move(traits)}});
  }
  json["cluster"] = ResultsToJson(found.cluster);
  json["network"] = Json::array();
  for (const v1::CheckedPair& pair : found.pairs) {
    Json one = ResultToJson(pair.result());
    one["from"] = pair.from();
    one["to"] = pair.to();
    one["bytes_per_second"] = pair.has_rate() ? Json(RateOf(pair)) : Json(nullptr);
    one["address"] = pair.has_rate() ? Json(pair.rate().address()) : Json(nullptr);
    json["network"].push_back(std::move(one));
  }
  json["fi_pingpong"] = PairsToJson(found.ping_pongs);
  json["hccl_demo"] = PairsToJson(found.demos);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace muster
