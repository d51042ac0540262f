// Tells who set each environment variable of a rank. Pure; usable from any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "muster/v1/types.pb.h"

namespace muster {

// One variable of one rank with everything that was said about it.
struct ExplainedVariable {
  std::string name;
  // Assignments in order of application, at least one. The last one holds; the others were
  // overridden, though a later value may refer to them (`PATH=/x:$PATH`).
  std::vector<v1::EnvAssignment> settings;

  const v1::EnvAssignment& effective() const { return settings.back(); }
};

// Lists the variables of `rank` in order of name: defaults, the layers of `launch.env`, then what
// the launcher owns. The agent's own environment is not among them: only the node knows it. Without
// `rendezvous` the values of `MASTER_ADDR` and `MASTER_PORT` are what was asked for, empty when
// they are chosen at the start.
std::vector<ExplainedVariable> ExplainRank(const v1::LaunchSpec& launch, const v1::RankSpec& rank,
                                           const std::optional<v1::Rendezvous>& rendezvous);

}  // namespace muster
