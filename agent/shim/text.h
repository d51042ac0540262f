// Words for messages. Pure. The shim has no formatting library: it must stay small.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster::shim {

// "No such file or directory (ENOENT)".
std::string ErrnoText(int error_number);

// `bytes` fit to be shown: control characters and bytes that are not UTF-8 as \xNN, longer than
// `max_bytes` cut with "...".
std::string Printable(std::string_view bytes, size_t max_bytes = 300);

// Printable text in single quotes.
std::string Quoted(std::string_view bytes);

// The last three lines of `text` that are not blank, as one: what a program that failed said last.
// Engines put the reason in front of a hint or two.
std::string LastWords(std::string_view text, size_t max_bytes = 400);

// Writes one line to stderr, which is the attempt's `shim.log`: "TIME muster-shim: text".
void Complain(std::string_view text);

}  // namespace muster::shim
