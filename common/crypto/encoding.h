// Bytes as text: hexadecimal, and base32 of RFC 4648 in lower case without padding. Every text has
// one reading and every byte string one writing. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace muster {

// Lower case.
std::string HexEncode(std::string_view bytes);
// Either case. Nothing when it is no hexadecimal or of odd length.
std::optional<std::string> HexDecode(std::string_view text);

std::string Base32Encode(std::string_view bytes);
// Nothing when there is a character other than a-z and 2-7, a length that no bytes have, or bits
// after the last byte that are not zero.
std::optional<std::string> Base32Decode(std::string_view text);

}  // namespace muster
