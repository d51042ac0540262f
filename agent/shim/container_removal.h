// The other thing that muster-shim can do: remove the containers of an attempt whose shim is gone.
// Called once, from main.
#pragma once

#include <chrono>

#include "muster/internal/shim.pb.h"

namespace muster::shim {

// Removes all, for at most `limit`. Meanwhile nobody gets the slots of the attempt, and nor later
// while something is left: they are withheld (agent/shim/withheld.h). Prints "killed N", N the
// containers that were there, and a line for each that is left, and why. 0 when none is.
int RemoveContainers(const internal::ShimBootstrap& bootstrap, std::chrono::milliseconds limit);

}  // namespace muster::shim
