#include "coordinator/logs/control_sequences.h"

#include <cstdint>
#include <cstring>

#include "coordinator/logs/line_assembler.h"

namespace muster {
namespace {

constexpr unsigned char kEscape = 0x1b;

bool IsControl(unsigned char c) { return (c < 0x20 && c != '\t' && c != '\n') || c == 0x7f; }

// Length of a sequence that begins at `text` with an introducer of `begin` bytes (ESC [ or C1 CSI).
size_t CsiLength(std::string_view text, size_t begin, bool* colour) {
  size_t i = begin;
  while (i < text.size()) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    if (c >= 0x40 && c <= 0x7e) {
      *colour = c == 'm' && begin == 2 && text[0] == static_cast<char>(kEscape);
      // Private forms of `m`, such as `ESC [ > ... m`, set keyboard modes.
      for (size_t p = begin; *colour && p < i; ++p) {
        *colour = (text[p] >= '0' && text[p] <= '9') || text[p] == ';' || text[p] == ':';
      }
      return i + 1;
    }
    if (c < 0x20 || c > 0x3f) return i;  // not a valid sequence: what was read of it goes
    ++i;
  }
  return text.size();
}

// Length of a string sequence (OSC, DCS, ...), which ends with BEL or ST.
size_t StringLength(std::string_view text, size_t begin) {
  for (size_t i = begin; i < text.size(); ++i) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    if (c == 0x07) return i + 1;
    if (c == kEscape) return i + 1 < text.size() && text[i + 1] == '\\' ? i + 2 : i;
    if (c == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) == 0x9c) {
      return i + 2;
    }
  }
  return text.size();
}

}  // namespace

bool HasControls(std::string_view text) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  constexpr uint64_t kHigh = 0x8080808080808080;
  const char* data = text.data();
  size_t left = text.size();
  // Eight bytes at a time: any byte below 0x20, 0x7f, or 0xc2 (the first of a C1 control in UTF-8)?
  while (left >= 8) {
    uint64_t word;
    std::memcpy(&word, data, 8);
    const uint64_t low = (word - kOnes * 0x20) & ~word & kHigh;
    const uint64_t del_bits = word ^ (kOnes * 0x7f);
    const uint64_t c1_bits = word ^ (kOnes * 0xc2);
    const uint64_t del = (del_bits - kOnes) & ~del_bits & kHigh;
    const uint64_t c1 = (c1_bits - kOnes) & ~c1_bits & kHigh;
    // Tabs make it look closer, which is slower and as right.
    if ((low | del | c1) != 0) break;
    data += 8;
    left -= 8;
  }
  for (size_t i = 0; i < left; ++i) {
    const unsigned char c = static_cast<unsigned char>(data[i]);
    if (IsControl(c)) return true;
    if (c == 0xc2 && i + 1 < left && (static_cast<unsigned char>(data[i + 1]) & 0xe0) == 0x80) {
      return true;
    }
  }
  return false;
}

size_t ControlLength(std::string_view text, bool* colour) {
  *colour = false;
  const unsigned char c = static_cast<unsigned char>(text[0]);
  if (c == 0xc2 && text.size() > 1) {
    const unsigned char c1 = static_cast<unsigned char>(text[1]);
    if (c1 < 0x80 || c1 >= 0xa0) return 0;
    if (c1 == 0x9b) return CsiLength(text, 2, colour);
    if (c1 == 0x90 || c1 == 0x98 || c1 == 0x9d || c1 == 0x9e || c1 == 0x9f) {
      return StringLength(text, 2);
    }
    return 2;
  }
  if (!IsControl(c)) return 0;
  if (c != kEscape || text.size() == 1) return 1;
  switch (text[1]) {
    case '[':
      return CsiLength(text, 2, colour);
    case 'P':
    case 'X':
    case ']':
    case '^':
    case '_':
      return StringLength(text, 2);
    default:
      break;
  }
  // ESC, intermediates 0x20-0x2f, final 0x30-0x7e.
  size_t i = 1;
  while (i < text.size() && text[i] >= 0x20 && text[i] <= 0x2f) ++i;
  return i < text.size() && text[i] >= 0x30 && text[i] <= 0x7e ? i + 1 : i;
}

void AppendFiltered(std::string_view line, ControlSequences mode, std::string* out) {
  if (mode == ControlSequences::kKeep) {
    out->append(line);
    return;
  }
  bool coloured = false;
  size_t plain = 0;  // ordinary text from here on is not yet appended
  size_t i = 0;
  while (i < line.size()) {
    bool colour = false;
    const size_t length = ControlLength(line.substr(i), &colour);
    if (length == 0) {
      ++i;
      continue;
    }
    std::string_view text = line.substr(plain, i - plain);
    // Half a character, which must not become a C1 control together with what follows the removed
    // part.
    while (!text.empty() && text.back() == '\xc2') text.remove_suffix(1);
    out->append(text);
    if (colour && mode == ControlSequences::kColourOnly) {
      const std::string_view sequence = line.substr(i, length);
      out->append(sequence);
      coloured = sequence != "\x1b[0m" && sequence != "\x1b[m";
    }
    i += length;
    plain = i;
  }
  out->append(line.substr(plain));
  // A colour left on must not run into the lines of other ranks.
  if (coloured) out->append("\x1b[0m");
}

}  // namespace muster
