// What the reports of nodes say together: which nodes found the same, and what should be equal on
// all nodes of a job, or different on each, and is not. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "coordinator/core/job_record.h"
#include "muster/v1/types.pb.h"

namespace muster {

// Other clocks than this far away are told; timestamps of logs are then hard to compare.
inline constexpr Duration kClocksAgree = std::chrono::seconds(2);

// One node, as it is compared.
struct ComparedNode {
  std::string host;
  // Never null.
  const v1::NodeReport* report = nullptr;
  // Its clock minus the coordinator's, when that is known and worth telling.
  std::optional<Duration> clock_offset;
};

struct CompareOptions {
  // Ranks have cards: what they cannot do with different drivers prevents the start.
  bool cards = false;
  google::protobuf::RepeatedPtrField<std::string> skip_checks;
  google::protobuf::RepeatedPtrField<std::string> require_checks;
};

// Only what differs: a check without a result is as it should be. One result per property.
std::vector<v1::CheckResult> CompareNodes(const std::vector<ComparedNode>& nodes,
                                          const CompareOptions& options);

// One distinct finding and the hosts that have it, in their order.
struct FoldedResult {
  std::vector<std::string> hosts;
  v1::CheckResult result;
};
// Results of `verdict`, those of the first node first.
std::vector<FoldedResult> FoldResults(const std::vector<ComparedNode>& nodes, v1::Verdict verdict);

// "[node1-7] memlock: ranks may lock only 65536 bytes of memory (ulimit -l unlimited)".
std::string FoldedLine(const FoldedResult& folded);

// What nodes warned of by themselves, "[node1-7] ranks are not bound: ...", in the order of nodes.
std::vector<std::string> FoldedWarnings(const AttemptRecord& attempt);

// What the nodes of an attempt that are all prepared have found together. `reasons`: why it must
// not start; empty: it may. `warnings`: one line each.
struct StartFindings {
  std::vector<std::string> reasons;
  std::vector<std::string> warnings;
};
StartFindings FindingsOf(const JobRecord& job, const AttemptRecord& attempt);

}  // namespace muster
