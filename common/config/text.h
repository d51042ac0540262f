// Lexical helpers that the parsers of this directory share. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/config/diagnostics.h"

namespace muster {

// Blanks as every format here has them: space and tab.
inline bool IsBlank(char c) { return c == ' ' || c == '\t'; }
inline bool IsDigit(char c) { return c >= '0' && c <= '9'; }
inline bool IsAlpha(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Without blanks at either end.
std::string_view Trim(std::string_view text);

// Pieces between `separator`, empty ones included.
std::vector<std::string_view> Split(std::string_view text, char separator);

// A decimal number, digits only. Nothing for anything else and for numbers above `max`.
std::optional<uint64_t> ParseNumber(std::string_view text, uint64_t max);

// Length of the well-formed UTF-8 sequence at the beginning of `text`: 1 to 4, or 0 when there is
// none.
size_t Utf8Length(std::string_view text);

// Text for a message: well-formed UTF-8 as it is, control characters and stray bytes as \n, \t,
// \xNN, cut after `max_bytes` with "...".
std::string Printable(std::string_view text, size_t max_bytes = 4096);

// Printable in single quotes, cut after 60 bytes: how messages show a piece of the user's text.
std::string Quoted(std::string_view text);

// The file without a UTF-8 byte order mark. Reports files that cannot be text (UTF-16, NUL bytes)
// or are larger than `max_bytes`, and then returns nothing.
std::optional<std::string_view> TextBody(std::string_view bytes, std::string_view file,
                                         size_t max_bytes, Diagnostics& diagnostics);

// The member of `known` that `word` is most likely a misspelling of; empty when none is near.
std::string_view Nearest(std::string_view word, const std::vector<std::string_view>& known);

}  // namespace muster
