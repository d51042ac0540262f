// Finds out whether this machine lets ranks be where they were placed: tries every place with the
// calling thread, which is left as it was. Processors may have gone offline, a container may forbid
// it, and a topology may be that of another machine. Blocks for microseconds; any thread that
// belongs to the caller alone.
#pragma once

#include "agent/binding/place_ranks.h"

namespace muster {

// Takes back, with a warning, what cannot be.
void TryPlacements(Placements* placements);

}  // namespace muster
