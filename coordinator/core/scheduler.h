// Finds nodes for a waiting job and lays its ranks out. Pure; usable from any thread.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "coordinator/core/job_index.h"
#include "coordinator/core/job_policy.h"
#include "coordinator/core/job_record.h"
#include "coordinator/plan/card_choice.h"
#include "coordinator/plan/host_match.h"
#include "muster/v1/job.pb.h"

namespace muster {

// The nodes that could run something now: those in contact.
struct NodeInventory {
  // Which boot and which journal the node of the same index is at.
  struct Identity {
    std::string boot_id;
    std::string journal_id;
  };
  std::vector<NodeView> nodes;
  std::vector<Identity> identities;
};

// Looks for a node for every host of a waiting job. A new attempt of a job is only placed once
// nothing of its earlier attempts can run anywhere: their nodes said so, or have booted since.
struct PlacementResult {
  Placement placement;
  // Per host of the spec: the node that serves it, empty when there is none.
  std::vector<NodeId> node_of_host;
};
// Who has the cards of a node, which is at this boot.
using CardUseOf = std::function<CardUse(const NodeId& node, const std::string& boot_id)>;
// `card_use` may be null: then all cards are free.
PlacementResult PlaceJob(const JobRecord& job, const NodeInventory& inventory,
                         const CardUseOf& card_use = nullptr);

// Slots that a planned attempt would get and that attempts which are over, or cards that attempts
// which are being stopped, may still hold, because
// their node has not said that nothing of them is left: "node-2 has not confirmed that job kx3v9q,
// which had slot 0, is gone". Empty when all are free as far as is known. An attempt that is not
// over holds its slots by right: its node refuses them to others.
std::vector<std::string> HeldByEnded(const internal::AttemptPlanned& planned, const JobIndex& jobs);

// What the nodes of a planned attempt are to launch, without environments (AddEnvironment): the
// same plan again, from the record. INTERNAL when it comes out differently, which another version
// of the planner might do.
absl::StatusOr<v1::Plan> ReplanAttempt(const JobRecord& job, const AttemptRecord& attempt);

}  // namespace muster
