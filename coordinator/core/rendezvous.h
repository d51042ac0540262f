// Where the ranks of an attempt meet, and whether its nodes reach that place. Pure. Usable from any
// thread.
//
// Rank 0's node proposes addresses when it is prepared. The other nodes are then told to try them
// all (ProbeOrdered) while the shim of rank 0's node listens on the port; each tells which it has
// reached. The first address that every one of them has reached is MASTER_ADDR.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "coordinator/core/job_record.h"
#include "muster/internal/record.pb.h"
#include "muster/v1/types.pb.h"

namespace muster {

// What agents that answer probes say in Hello.
inline constexpr char kProbeCapability[] = "rendezvous-probe";

// What is not in the record of an attempt and counts when its probe is ordered.
struct ProbeView {
  // Indexes of the nodes whose agents can answer a probe.
  std::vector<uint32_t> able;
  // Addresses that rank 0's node has in common with another machine of the attempt, such as those
  // of a bridge of containers: who tries them there meets itself.
  std::set<std::string> ambiguous;
};

// Index of rank 0's node.
uint32_t RendezvousNode(const AttemptRecord& attempt);

// True when it is known what to probe, and that was not ordered yet.
bool MayProbe(const AttemptRecord& attempt);

// What is to be probed, and by whom. Nothing when there is nobody who can.
std::optional<internal::ProbeOrdered> PlanProbe(const JobRecord& job, const AttemptRecord& attempt,
                                                const ProbeView& view);

// True when every node that was asked has answered.
bool ProbeAnswered(const AttemptRecord& attempt);
// The preferred address among those that every node that was asked has reached. Nothing when there
// is none, or none yet.
std::optional<std::string> ReachedByAll(const AttemptRecord& attempt);
// Why there is none: every node with what it did not reach, and what to look at. `waited`: how long
// nodes without an answer had for it.
std::string DescribeUnreached(const AttemptRecord& attempt, Duration waited);
// Why the first address of the probe was not taken; empty when it was.
std::string DescribeDetour(const AttemptRecord& attempt, const std::string& taken);

// Where the ranks of a prepared attempt meet: at the address that the probe has found; without a
// probe at the one that the job asks for, else the one that the hostfile gives to rank 0's host,
// else the first that rank 0's node proposed. Always at that node's port.
v1::Rendezvous ChooseRendezvous(const JobRecord& job, const AttemptRecord& attempt);

}  // namespace muster
