// Properties of a node that are compared with those of other nodes
// (coordinator/core/cluster_check.h says how). Reads as CheckContext does.
#pragma once

#include <vector>

#include "agent/checks/check_context.h"
#include "agent/checks/ec2_metadata.h"

namespace muster {

// What files and variables say. `own_machine`: the agent stands for its machine, so that its name
// and boot are compared too; agents of a local job share theirs by design.
std::vector<v1::NodeTrait> QuickTraits(const CheckContext& context, bool own_machine);

// What the cloud says of the instance.
std::vector<v1::NodeTrait> InstanceTraits(const Ec2Instance& instance);

inline v1::NodeTrait MakeTrait(std::string name, std::string value) {
  v1::NodeTrait trait;
  trait.set_name(std::move(name));
  trait.set_value(std::move(value));
  return trait;
}

}  // namespace muster
