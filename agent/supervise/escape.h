// Turns names that people chose into names of files. Pure.
#pragma once

#include <string>
#include <string_view>

namespace muster {

// `name` with every byte outside [A-Za-z0-9._-] as %XX. A leading dot is escaped too, so that the
// result is never
// "." or ".." and never hidden.
inline std::string EscapeFileName(std::string_view name) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string escaped;
  for (size_t i = 0; i < name.size(); ++i) {
    const unsigned char c = static_cast<unsigned char>(name[i]);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '-' || (c == '.' && i > 0);
    if (plain) {
      escaped += static_cast<char>(c);
    } else {
      escaped += '%';
      escaped += kHex[c >> 4];
      escaped += kHex[c & 15];
    }
  }
  return escaped;
}

}  // namespace muster
