// What `explain` shows about ranks of a plan. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/v1/job.pb.h"

namespace muster {

// One variable as it is shown.
struct ShownVariable {
  std::string value;   // secrets masked
  std::string layer;   // for example `env file`
  std::string source;  // for example `.deepspeed_env:3`; empty: no such place
  // Layers (with sources) of assignments that were overridden, the lowest first.
  std::vector<std::string> overridden;
};

struct RankExplanation {
  uint32_t rank = 0;
  uint32_t local_rank = 0;
  uint32_t slot = 0;
  std::string host;
  // Where the host was written, for example `hostfile:3`.
  std::string host_source;
  std::string cwd;
  std::vector<std::string> argv;
  std::map<std::string, ShownVariable> variables;
};

// Nothing when the plan has no such rank. `plan` is one of PlanDetail::kLayout.
std::optional<RankExplanation> Explain(const v1::JobSpec& spec, const v1::Plan& plan,
                                       uint32_t rank);

std::string RenderExplanations(std::span<const RankExplanation> ranks);
std::string RenderDiff(const RankExplanation& a, const RankExplanation& b);
// {"ranks": [...]}.
std::string ExplanationsToJson(std::span<const RankExplanation> ranks);
// {"a": {...}, "b": {...}} with only the variables that differ.
std::string DiffToJson(const RankExplanation& a, const RankExplanation& b);

}  // namespace muster
