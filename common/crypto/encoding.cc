#include "common/crypto/encoding.h"

#include <cstdint>

namespace muster {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";
constexpr std::string_view kBase32Digits = "abcdefghijklmnopqrstuvwxyz234567";

int HexValue(char c) {
  if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
  const size_t value = kHexDigits.find(c);
  return value == std::string_view::npos ? -1 : static_cast<int>(value);
}

}  // namespace

std::string HexEncode(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += kHexDigits[byte >> 4];
    text += kHexDigits[byte & 15];
  }
  return text;
}

std::optional<std::string> HexDecode(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() / 2);
  for (size_t i = 0; i < text.size(); i += 2) {
    const int high = HexValue(text[i]);
    const int low = HexValue(text[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes += static_cast<char>(high << 4 | low);
  }
  return bytes;
}

std::string Base32Encode(std::string_view bytes) {
  std::string text;
  uint32_t buffer = 0;
  int bits = 0;
  for (const char c : bytes) {
    buffer = buffer << 8 | static_cast<unsigned char>(c);
    for (bits += 8; bits >= 5; bits -= 5) text += kBase32Digits[buffer >> (bits - 5) & 31];
  }
  if (bits > 0) text += kBase32Digits[buffer << (5 - bits) & 31];
  return text;
}

std::optional<std::string> Base32Decode(std::string_view text) {
  std::string bytes;
  uint32_t buffer = 0;
  int bits = 0;
  for (const char c : text) {
    const size_t value = kBase32Digits.find(c);
    if (value == std::string_view::npos) return std::nullopt;
    buffer = buffer << 5 | static_cast<uint32_t>(value);
    bits += 5;
    if (bits < 8) continue;
    bits -= 8;
    bytes += static_cast<char>(buffer >> bits & 255);
  }
  // A whole digit too many, or bits that would be lost.
  if (bits >= 5 || (buffer & ((1U << bits) - 1)) != 0) return std::nullopt;
  return bytes;
}

}  // namespace muster
