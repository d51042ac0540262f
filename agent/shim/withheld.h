// Slots that nobody may have although nobody holds their leases: a container may still use them,
// and whoever could tell is gone. Marks are files beside those of the leases, one for each slot and
// attempt. A mark ends with the boot, which no container outlives, or when it is taken away: by who
// has made sure that nothing is left, or by a person. Never blocks.
#pragma once

#include <string>

namespace muster::shim {

// Makes a mark. `lease`: name of the lease file. `attempt`: a file name, who the mark is of.
// `reason`: for people. Empty, or why the mark could not be made.
std::string MarkWithheld(int directory, const std::string& lease, const std::string& attempt,
                         const std::string& reason);

// Takes a mark away; there may be none.
void UnmarkWithheld(int directory, const std::string& lease, const std::string& attempt);

// The reason of a mark of `lease`, with the name of its file, both for people; empty: there is
// none. Those of other boots do not count; one that cannot be read does.
struct Withheld {
  std::string file;
  std::string reason;
};
Withheld FindWithheld(int directory, const std::string& lease);

}  // namespace muster::shim
