// Text that comes from outside and goes into messages, which hold nothing but well-formed UTF-8:
// whoever gets one with anything else cannot read any of it. Pure; needs the standard library only.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster {

// Length of the well-formed sequence at the beginning of `text`: 1 to 4, or 0 when there is none.
inline size_t LengthOfUtf8(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  // The second byte is limited so that overlong forms, surrogates and values past U+10FFFF fail.
  size_t length = 0;
  unsigned char low = 0x80, high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return 0;
  }
  if (text.size() < length || byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xBF) return 0;
  }
  return length;
}

// `text` with a question mark for every byte that belongs to no well-formed sequence, also of one
// that is cut off.
inline std::string ValidUtf8(std::string text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = LengthOfUtf8(std::string_view(text).substr(at));
    if (length == 0) text[at] = '?';
    at += length == 0 ? 1 : length;
  }
  return text;
}

}  // namespace muster
