// Removes what output could do to a terminal beyond showing text: cursor movement, titles,
// clipboard, bells. Works on bytes; UTF-8 text passes through. Pure.
#pragma once

#include <string>
#include <string_view>

namespace muster {

// True when `text` may hold a control character other than tab and newline, C1 controls in UTF-8
// included. Fast: this is asked of every line.
bool HasControls(std::string_view text);

// Length of the escape sequence or control character that `text` begins with, at least 1; 0 when it
// begins with ordinary text. A sequence that is cut off extends to the end. `*colour` is set when
// it is a complete SGR sequence, the one that sets colours.
size_t ControlLength(std::string_view text, bool* colour);

}  // namespace muster
