// Plans a job: which rank runs where, with which argv and environment. Pure; usable from any
// thread. It decides no rendezvous (the node of rank 0 is asked for one) and knows no job id or
// attempt.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "coordinator/plan/card_choice.h"
#include "coordinator/plan/host_match.h"
#include "muster/v1/job.pb.h"

namespace muster {

// Slots that a bare host counts for while its node is not known, as in a dry run.
inline constexpr uint32_t kSlotsOfUnknownNode = 8;

// What the node of one host offers.
struct NodeSlots {
  // Empty: not known yet; the host then has the slots that the hostfile says.
  NodeId node;
  // Slots of the node: module ids of cards, or plain slot numbers.
  std::vector<uint32_t> slots;
  // True when `slots` are module ids of real cards.
  bool are_modules = false;
  // Slots of a bare host, the first of `slots`; 0: all of them.
  uint32_t bare_count = 0;
  // Who has which of the cards.
  CardUse use;
  // Why there are fewer cards than one might think, in words.
  std::vector<std::string> problems;
};

// The slots that a node offers to a job with these `devices`: its cards, or with `none` plain slots
// beside them, as many as it has processors but at least kSlotsOfUnknownNode.
NodeSlots SlotsOf(const NodeView& node, std::string_view devices = "auto");

// How much of a plan to build.
enum class PlanDetail {
  // Everything that a node needs.
  kFull,
  // For showing: `LaunchSpec.env` stays empty. It is the job's environment with the node's on top,
  // and
  // a thousand copies of it fit into no message.
  kLayout,
};

// Plans `spec` on `nodes`: one element per host of the spec, or none at all when no node is known.
//
// Ranks follow the order of the hosts, then of the slots. `Plan.nodes[i]` belongs to
// `spec.hosts(i)`. Errors carry every reason, one per line: `INVALID_ARGUMENT` when the job itself
// is at fault (no rank, a string too long to execute), `FAILED_PRECONDITION` when a node lacks a
// slot that was asked for.
absl::StatusOr<v1::Plan> PlanJob(const v1::JobSpec& spec, std::span<const NodeSlots> nodes,
                                 PlanDetail detail = PlanDetail::kFull);

// Sets `launch.env` to what a full plan has for `host`: the job's assignments, then those of the
// host.
void AddEnvironment(const v1::JobSpec& spec, std::string_view host, v1::LaunchSpec& launch);

}  // namespace muster
