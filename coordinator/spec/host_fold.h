// Says many host names in few words: names that differ in one number become a range, as a hostfile
// would have it. Pure.
#pragma once

#include <string>
#include <vector>

namespace muster {

// `node1-7,9` for node1 ... node7 and node9, `node[1-7,9]-ib` where something follows the number,
// zeros in front kept: `n08-11`. Names of different shape are separated by commas; the order is
// that of the first name of each shape. A name comes once, however often it is given.
std::string FoldHosts(const std::vector<std::string>& hosts);

}  // namespace muster
