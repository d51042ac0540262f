// The checks of a start that are about cards. Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "agent/devices/inventory.h"
#include "muster/v1/types.pb.h"

namespace muster {

struct CardCheckOptions {
  // The start waits afterwards for cards that are held, or in a state that passes, and refuses what
  // does not come free: then those are told as warnings.
  bool wait_follows = false;
  // Value of HABANA_RUNTIME_ERROR in the agent's environment; empty: it is not set.
  std::string runtime_error;
  // HCCL_OVER_OFI=1 in the environment of the ranks: the network of the host is used between nodes.
  bool host_network = false;
};

// What stands in the way of the ranks of `launch`: `runtime-error`, `cards` (present, in a state to
// be used), `card-busy`, and for jobs of several cards `card-ports`. Without cards in the launch
// only the first. Messages name module, index and PCI address, not the node.
std::vector<v1::CheckResult> CheckCards(const v1::LaunchSpec& launch,
                                        const v1::DeviceInventory& inventory,
                                        const std::vector<CardHolder>& holders,
                                        const CardCheckOptions& options = {});

// "pid 4711 of alice (python3 train.py), job k3x": who it is, in words.
std::string DescribeHolder(const v1::DeviceHolder& holder);

}  // namespace muster
