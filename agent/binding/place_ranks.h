// Decides which processors and which memory the ranks of a node get. Pure; usable from any thread.
//
// `numa`: each rank gets the processors near its card, all of the card's NUMA node, shared with the
// other ranks there, and prefers that node's memory. Where a card's NUMA node is not known, as in
// virtual machines, and where slots are no cards, nothing is bound.
// `cores`: each rank gets physical cores of its own, with all their hardware threads. With cards
// those of a NUMA node are divided by all the cards at it, whether the job has them or not, so that
// jobs on other cards of the node get other cores; where no card's NUMA node is known, all cores by
// all cards. Without cards they are divided by the ranks of the job, and two jobs get the same
// ones.
#pragma once

#include <string>
#include <vector>

#include "agent/binding/topology.h"
#include "muster/internal/shim.pb.h"
#include "muster/v1/types.pb.h"

namespace muster {

// Variables of the ranks that have a say in where threads run.
struct BindVariables {
  // OMP_NUM_THREADS is set: it stays.
  bool threads_set = false;
  // Those of KMP_AFFINITY and GOMP_CPU_AFFINITY that are set.
  std::vector<std::string> affinity;
};

struct Placements {
  // One per rank, in local order; empty when the launch asks for nothing.
  std::vector<v1::RankPlacement> ranks;
  std::vector<std::string> warnings;
  // Why the ranks cannot be placed as the job wants.
  std::vector<v1::Problem> problems;
};

// Of the environment that `bootstrap` gives its ranks.
BindVariables ReadBindVariables(const internal::ShimBootstrap& bootstrap);

// True when placing them takes the topology; else PlaceWithoutTopology says all there is to say.
bool NeedsTopology(const v1::LaunchSpec& launch);
Placements PlaceWithoutTopology(const v1::LaunchSpec& launch);

// Of a launch that NeedsTopology. `devices`: all cards of the node.
Placements PlaceRanks(const v1::LaunchSpec& launch, const v1::DeviceInventory& devices,
                      const TopologyFacts& topology, const BindVariables& variables);

// The ranks of `launch`, none of them bound.
Placements PlaceNowhere(const v1::LaunchSpec& launch, const std::string& reason);

}  // namespace muster
