// What this node has for ranks in containers: engines in the agent's PATH, device nodes, limits.
// Reads directories and looks at files; quick; any thread.
#pragma once

#include <string>
#include <vector>

#include "agent/core/container.h"

namespace muster {

// `environ`: the agent's environment, whose PATH counts.
ContainerHost LookForEngines(const std::vector<std::string>& environ,
                             const std::string& sysroot = "");

}  // namespace muster
