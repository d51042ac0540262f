// What a carriage return does to a line: it overwrites what stood in front of it. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster {

// Longest line that is held and looked at as a whole.
inline constexpr size_t kMaxLineBytes = size_t{64} << 10;

// The part of `line` that a terminal would show: behind the last carriage return that something
// follows.
std::string_view NewestState(std::string_view line);

// Appends as much of `rest` to the unfinished line `held` as fits into `max_bytes`, and removes it
// from `rest`. Overwritten states of a progress bar make room first; their last carriage return
// stays. True when `held` is full and something of `rest` is left: the line must be cut.
bool HoldLine(std::string_view& rest, size_t max_bytes, std::string& held);

}  // namespace muster
