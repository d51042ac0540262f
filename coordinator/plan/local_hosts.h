// Says which agents `--local` starts for a hostfile. Pure; usable from any thread.
#pragma once

#include <google/protobuf/repeated_ptr_field.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "muster/v1/job_spec.pb.h"

namespace muster {

// An agent to start on this machine.
struct LocalAgent {
  // Its node id: the host as the hostfile has it.
  std::string node_id;
  // Slots to offer: 0 to `slots` - 1.
  uint32_t slots = 0;
};

// One agent per host. Two kinds of hosts get none:
//
// * a numeric address that is not in `machine_addresses`: it is another machine, so it stays
// missing;
// * a name of this very machine (`localhost`, a loopback address, one of `machine_addresses`) when
// an
//   agent exists already: the hostfile then has this machine twice, and matching the entry against
//   the addresses of that agent says so.
//
// Every agent reports `machine_addresses` and loopback. Two entries with one name give one agent.
std::vector<LocalAgent> PlanLocalAgents(
    const google::protobuf::RepeatedPtrField<v1::HostEntry>& hosts,
    std::span<const std::string> machine_addresses);

}  // namespace muster
