// `agent doctor`: why this node does not serve its cluster, or what may keep it from doing so. It
// changes nothing and needs no agent that runs. Blocks.
#pragma once

#include "agent/daemon/config.h"
#include "common/doctor/finding.h"

namespace muster {

// `config`: as of `agent run`. `json`: how it is printed. Returns the exit status of the program: 0
// when nothing has failed, else 1.
int RunDoctor(const AgentConfig& config, bool json);

// What RunDoctor prints.
Findings ExamineNode(const AgentConfig& config);

}  // namespace muster
