// Chooses hosts and slots of a hostfile: include, exclude, number of nodes, slots per node. Pure.
//
// The grammar is that of deepspeed, `NODE[@NODE...]` with `NODE = host[:slot[,slot...]]`, plus
// ranges of hosts (`node-[1-4]`) and of slots (`0-3`), and IPv6 addresses in brackets. A host
// without slots means all of its slots. Hostfile order decides, not the order of the expression.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/config/diagnostics.h"
#include "muster/v1/job.pb.h"

namespace muster {

// What the user asked for. Empty strings and -1 mean: not asked for.
struct Selection {
  std::string include;
  std::string exclude;
  std::optional<int> num_nodes;
  std::optional<int> slots_per_node;
  // Where each was written; the defaults are the flags.
  Origin include_at{"--include"};
  Origin exclude_at{"--exclude"};
  Origin num_nodes_at{"--num_nodes"};
  Origin slots_per_node_at{"--num_gpus"};
};

// Returns the chosen hosts in hostfile order, with selected_slots set where slots were chosen.
// Errors: include with exclude, either with a number of nodes or slots, a host or slot that does
// not exist, a host named twice, more nodes or slots than there are, nothing left. A host whose
// slot count is not known yet (slot_count 0) accepts any slot here; its node has the last word.
std::vector<v1::HostEntry> SelectHosts(std::vector<v1::HostEntry> hosts, const Selection& selection,
                                       Diagnostics& diagnostics);

// False for two or four cards that are not one of the groups in which Gaudi cards reach each other:
// 0,1 2,3 4,5 6,7 0-3 4-7. `modules` ascending. The planner warns about such a set (R15).
bool IsGaudiGroup(std::span<const uint32_t> modules);

}  // namespace muster
