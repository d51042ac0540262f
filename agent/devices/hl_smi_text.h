// What `hl-smi -Q FIELDS -f csv,noheader` prints. Pure; any thread. Rows come in any order, with
// blanks before fields and units behind numbers; lines of the vendor's log may be between them; and
// a stand-in may print a header, and other columns than it was asked for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/v1/types.pb.h"

namespace muster {

// One card.
struct HlSmiCard {
  v1::Device device;
  // `module_id` is that of `device`.
  v1::DeviceReading reading;
};

struct HlSmiText {
  // In the order in which they were printed.
  std::vector<HlSmiCard> cards;
  // Lines that are no rows of the table; blank ones are not counted.
  size_t other_lines = 0;
  // The first of those, shortened.
  std::string first_other;
};

// `fields` are those that were asked for, in order; a header overrules them. A row counts when it
// has one column per field, and a number as index and as module id.
HlSmiText ParseHlSmi(std::string_view text, const std::vector<std::string>& fields);

}  // namespace muster
