// What a node says about a start that is about to be made there: what its checks find, and where
// the ranks are to be. The seam between the agent's core and the machine; everything lives on the
// loop thread. An inspector decides nothing: it tells what it found, and the core refuses or
// launches.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "agent/core/user_gate.h"
#include "common/base/ids.h"
#include "muster/internal/shim.pb.h"
#include "muster/v1/types.pb.h"

namespace muster {

// What is about to be started. References hold until Inspect returns; whoever works longer copies.
struct InspectionRequest {
  const AttemptId& attempt;
  const v1::LaunchSpec& launch;
  const RunAs& user;
  // With the final argv and environment of every rank.
  const internal::ShimBootstrap& bootstrap;
  // False: a start, where time counts. True: somebody asks what the node is like, and nothing is
  // started: everything is looked at and told, what is as it should be included, and also what the
  // shim would check.
  bool thorough = false;
};

struct Inspection {
  // Why the ranks cannot start here. Nothing is launched unless this is empty.
  std::vector<v1::Problem> problems;
  // What the user should know, without the name of the node.
  std::vector<std::string> warnings;
  // Everything that was checked, and what other nodes are compared with.
  v1::NodeReport report;
  // One per rank, in local order; empty: nothing is bound.
  std::vector<v1::RankPlacement> placements;
};

class NodeInspector {
 public:
  using Done = std::function<void(Inspection)>;

  virtual ~NodeInspector() = default;
  // `done` runs later, exactly once unless the inspector is destroyed before, on the loop thread,
  // within a time that the inspector bounds.
  virtual void Inspect(const InspectionRequest& request, Done done) = 0;
};

}  // namespace muster
