// Who is tested with whom. Pure.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace muster {

using Pairs = std::vector<std::pair<size_t, size_t>>;

// The pairs of round `round` among `count` nodes, as in a tournament where all play all: in every
// round each node has one partner at most, an odd one out has none; after count-1 rounds (count
// when it is odd) every two have met once, and it begins anew.
Pairs PairsOfRound(size_t count, size_t round);

}  // namespace muster
