#include "coordinator/core/cluster_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "coordinator/core/job_text.h"
#include "coordinator/spec/host_fold.h"

namespace muster {
namespace {

constexpr size_t kMaxValuesShown = 8;

std::string_view ValueOf(const v1::NodeReport& report, std::string_view trait, bool* told) {
  for (const v1::NodeTrait& one : report.traits()) {
    if (one.name() != trait) continue;
    *told = true;
    return one.value();
  }
  *told = false;
  return "";
}

// Hosts by value of a trait, the value of most hosts first.
using Values = std::vector<std::pair<std::string, std::vector<std::string>>>;

Values ValuesOf(const std::vector<ComparedNode>& nodes, std::string_view trait, bool count_untold) {
  std::map<std::string, std::vector<std::string>, std::less<>> by_value;
  for (const ComparedNode& node : nodes) {
    bool told = false;
    const std::string_view value = ValueOf(*node.report, trait, &told);
    if (told || count_untold) by_value[std::string(value)].push_back(node.host);
  }
  Values values(by_value.begin(), by_value.end());
  std::stable_sort(values.begin(), values.end(),
                   [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  return values;
}

// "1.19.0 on node1-7; 1.18.0 on node8".
std::string Difference(const Values& values, std::string_view none) {
  std::vector<std::string> parts;
  for (const auto& [value, hosts] : values) {
    if (parts.size() == kMaxValuesShown) {
      parts.push_back(fmt::format("{} more", values.size() - kMaxValuesShown));
      break;
    }
    parts.push_back(
        fmt::format("{} on {}", value.empty() ? none : std::string_view(value), FoldHosts(hosts)));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

class Comparison {
 public:
  Comparison(const std::vector<ComparedNode>& nodes, const CompareOptions& options)
      : nodes_(nodes), options_(options) {}

  std::vector<v1::CheckResult> Run() {
    if (nodes_.size() < 2) return {};
    Machines();
    for (const char* trait : {"device-type", "driver", "firmware"}) {
      Same(trait, "same-driver", trait, options_.cards ? v1::FAIL : v1::WARN,
           "install the same release of the Habana driver and firmware on all nodes");
    }
    for (const char* trait : {"kernel", "python", "torch", "habana-torch-plugin", "deepspeed",
                              "transformers", "optimum-habana", "libfabric"}) {
      Same(trait, "same-software", trait, v1::WARN, "install the same version on all nodes");
    }
    Environment();
    Network();
    Clocks();
    return std::move(results_);
  }

 private:
  void Add(const char* check, v1::Verdict verdict, std::string message, std::string fix) {
    const auto has = [&](const auto& names) {
      return std::find(names.begin(), names.end(), check) != names.end();
    };
    if (has(options_.skip_checks)) return;
    v1::CheckResult& result = results_.emplace_back();
    result.set_check(check);
    result.set_verdict(has(options_.require_checks) ? v1::FAIL : verdict);
    result.set_message(std::move(message));
    result.set_fix(std::move(fix));
  }

  // Nodes that do not tell the property at all are left out.
  void Same(const char* trait, const char* check, std::string_view shown, v1::Verdict verdict,
            const char* fix) {
    const Values values = ValuesOf(nodes_, trait, false);
    if (values.size() < 2) return;
    Add(check, verdict, fmt::format("{} differs: {}", shown, Difference(values, "none")), fix);
  }

  void Machines() {
    for (const auto& [boot, hosts] : ValuesOf(nodes_, "boot-id", false)) {
      if (boot.empty() || hosts.size() < 2) continue;
      // Containers of one machine are nodes of their own as long as no cards are at stake.
      Add("same-machine", options_.cards ? v1::FAIL : v1::WARN,
          fmt::format("{} are one machine: they share a boot", FoldHosts(hosts)),
          "list every machine once");
    }
    for (const auto& [name, hosts] : ValuesOf(nodes_, "hostname", false)) {
      if (name.empty() || hosts.size() < 2) continue;
      if (BootsOf(hosts) < 2) continue;  // One machine, which was told.
      Add("same-hostname", options_.cards ? v1::FAIL : v1::WARN,
          fmt::format("{} all have the host name {}: HCCL takes them for one machine",
                      FoldHosts(hosts), name),
          "give every machine, or container, a name of its own");
    }
  }

  size_t BootsOf(const std::vector<std::string>& hosts) const {
    size_t boots = 0;
    for (const auto& [boot, having] : ValuesOf(nodes_, "boot-id", false)) {
      boots += std::any_of(having.begin(), having.end(), [&](const std::string& host) {
        return std::find(hosts.begin(), hosts.end(), host) != hosts.end();
      });
    }
    return boots;
  }

  void Environment() {
    std::vector<std::string> names;
    for (const ComparedNode& node : nodes_) {
      for (const v1::NodeTrait& trait : node.report->traits()) {
        if (trait.name().starts_with("env.")) names.push_back(trait.name());
      }
    }
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    for (const std::string& name : names) {
      const Values values = ValuesOf(nodes_, name, true);
      if (values.size() < 2) continue;
      Add("same-environment", v1::WARN,
          fmt::format("{} differs: {}", name.substr(4), Difference(values, "not set")),
          "set it in env or an env file of the job, which every node gets");
    }
  }

  void Network() {
    Same("subnet", "same-network", "the subnet of the interface that HCCL uses", v1::WARN,
         "set HCCL_SOCKET_IFNAME (node_env for single nodes) to interfaces of one network, or see "
         "that routes lead between them");
    Same("availability-zone", "same-network", "the availability zone", v1::WARN,
         "launch all instances in one subnet: EFA does not reach another zone");
    Same("placement-group", "same-network", "the placement group", v1::WARN,
         "launch all instances in one cluster placement group");
    // Cards that have addresses send through routers, the others on one segment: they do not meet.
    Same("scale-out", "same-network", "the network of the cards (L3 with gaudinet.json, else L2)",
         options_.cards ? v1::FAIL : v1::WARN,
         "put a gaudinet.json on every node of an L3 network, and on none of an L2 one");
  }

  void Clocks() {
    std::vector<std::string> wrong;
    for (const ComparedNode& node : nodes_) {
      if (!node.clock_offset || std::chrono::abs(*node.clock_offset) < kClocksAgree) continue;
      const bool ahead = *node.clock_offset > Duration::zero();
      wrong.push_back(fmt::format("{} is {} {}", node.host,
                                  DescribeDuration(std::chrono::duration_cast<std::chrono::seconds>(
                                      std::chrono::abs(*node.clock_offset))),
                                  ahead ? "ahead" : "behind"));
    }
    if (wrong.empty()) return;
    Add("clock", v1::WARN,
        fmt::format("clocks differ from the coordinator's: {}", JoinNames(wrong, 16)),
        "run a time service, such as chrony, on every machine");
  }

  const std::vector<ComparedNode>& nodes_;
  const CompareOptions& options_;
  std::vector<v1::CheckResult> results_;
};

std::string Sentence(const v1::CheckResult& result) {
  return result.fix().empty()
             ? fmt::format("{}: {}", result.check(), OneLine(result.message()))
             : fmt::format("{}: {} ({})", result.check(), OneLine(result.message()), result.fix());
}

}  // namespace

std::vector<v1::CheckResult> CompareNodes(const std::vector<ComparedNode>& nodes,
                                          const CompareOptions& options) {
  return Comparison(nodes, options).Run();
}

std::vector<FoldedResult> FoldResults(const std::vector<ComparedNode>& nodes, v1::Verdict verdict) {
  std::vector<FoldedResult> folded;
  for (const ComparedNode& node : nodes) {
    for (const v1::CheckResult& result : node.report->results()) {
      if (result.verdict() != verdict) continue;
      const auto same = std::find_if(folded.begin(), folded.end(), [&](const FoldedResult& one) {
        return one.result.check() == result.check() && one.result.message() == result.message() &&
               one.result.fix() == result.fix();
      });
      if (same == folded.end()) {
        folded.push_back({{node.host}, result});
      } else {
        same->hosts.push_back(node.host);
      }
    }
  }
  return folded;
}

std::string FoldedLine(const FoldedResult& folded) {
  return fmt::format("[{}] {}", FoldHosts(folded.hosts), Sentence(folded.result));
}

std::vector<std::string> FoldedWarnings(const AttemptRecord& attempt) {
  // By text; `order` has the texts as they were first met.
  std::map<std::string_view, std::vector<std::string>> hosts;
  std::vector<std::string_view> order;
  for (const NodeProgress& node : attempt.nodes) {
    for (const std::string& warning : node.warnings) {
      std::vector<std::string>& of_text = hosts[warning];
      if (of_text.empty()) order.push_back(warning);
      if (of_text.empty() || of_text.back() != node.host) of_text.push_back(node.host);
    }
  }
  std::vector<std::string> lines;
  for (const std::string_view text : order) {
    lines.push_back(fmt::format("[{}] {}", FoldHosts(hosts[text]), text));
  }
  return lines;
}

StartFindings FindingsOf(const JobRecord& job, const AttemptRecord& attempt) {
  std::vector<ComparedNode> nodes;
  CompareOptions options;
  for (const NodeProgress& node : attempt.nodes) {
    nodes.push_back({node.host, &node.report, node.clock_offset});
    options.cards = options.cards || node.slots_are_modules;
  }
  options.skip_checks = job.spec->skip_checks();
  options.require_checks = job.spec->require_checks();
  StartFindings findings;
  for (const FoldedResult& folded : FoldResults(nodes, v1::WARN)) {
    findings.warnings.push_back(FoldedLine(folded));
  }
  for (const v1::CheckResult& result : CompareNodes(nodes, options)) {
    (result.verdict() == v1::FAIL ? findings.reasons : findings.warnings)
        .push_back(Sentence(result));
  }
  return findings;
}

}  // namespace muster
