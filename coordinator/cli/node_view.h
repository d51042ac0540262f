// The cards of a node, for people and programs. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "muster/v1/node.pb.h"

namespace muster {

// Everything about one node: what it is, a line per card with what it said last, and what is wrong.
// `now`: seconds since 1970.
std::string RenderNode(const v1::Node& node, int64_t now);

// One object per card, by module id; what is not known is null.
nlohmann::ordered_json CardsToJson(const v1::Node& node);

// The names of the cards that a process holds, and the like, are the node's: control characters in
// them are shown as blanks.
std::string HoldersText(const v1::DeviceReading& reading);

}  // namespace muster
