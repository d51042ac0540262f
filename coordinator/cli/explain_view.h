// What `explain` shows about ranks of a plan. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/filled_trait.h"
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

// What is known of a job besides its plan once it was submitted.
struct StartedJob {
  std::string job_id;
  // Newest attempt; 0: it never found its nodes.
  uint32_t attempt = 0;
  // Where the ranks met; nothing when they were not started.
  std::optional<v1::Rendezvous> rendezvous;
  // Of ranks, by number; of none whose node was not prepared.
  std::map<uint32_t, v1::RankPlacement> placements;
  // Variables that nodes have filled in, by host.
  std::map<std::string, std::vector<FilledVariable>> filled;
};

struct RankExplanation {
  // Empty, 0: the job was not submitted yet; it did not find its nodes.
  std::string job_id;
  uint32_t attempt = 0;
  uint32_t rank = 0;
  uint32_t local_rank = 0;
  uint32_t slot = 0;
  std::string host;
  // Where the host was written, for example `hostfile:3`.
  std::string host_source;
  std::string cwd;
  std::vector<std::string> argv;
  // What the job says of binding, and what its node made of it. Unset: that is not known.
  std::string bind;
  std::optional<v1::RankPlacement> placement;
  std::map<std::string, ShownVariable> variables;
};

// Nothing when the plan has no such rank. `plan` is one of PlanDetail::kLayout. `started`: nothing
// before the job is submitted.
std::optional<RankExplanation> Explain(const v1::JobSpec& spec, const v1::Plan& plan, uint32_t rank,
                                       const std::optional<StartedJob>& started = std::nullopt);

std::string RenderExplanations(std::span<const RankExplanation> ranks);
std::string RenderDiff(const RankExplanation& a, const RankExplanation& b);
// {"ranks": [...]}.
std::string ExplanationsToJson(std::span<const RankExplanation> ranks);
// {"a": {...}, "b": {...}} with only the variables that differ.
std::string DiffToJson(const RankExplanation& a, const RankExplanation& b);

}  // namespace muster
