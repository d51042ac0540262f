#include "common/config/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "common/base/utf8.h"

namespace muster {

std::string_view Trim(std::string_view text) {
  while (!text.empty() && IsBlank(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsBlank(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (true) {
    const size_t end = text.find(separator);
    pieces.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

std::optional<uint64_t> ParseNumber(std::string_view text, uint64_t max) {
  if (text.empty()) return std::nullopt;
  uint64_t value = 0;
  for (const char c : text) {
    if (!IsDigit(c)) return std::nullopt;
    const uint64_t digit = static_cast<uint64_t>(c - '0');
    if (digit > max || value > (max - digit) / 10) return std::nullopt;
    value = value * 10 + digit;
  }
  return value;
}

size_t Utf8Length(std::string_view text) { return LengthOfUtf8(text); }

std::string Printable(std::string_view text, size_t max_bytes) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= max_bytes) return out + "...";
    size_t length = Utf8Length(text);
    const unsigned char lead = static_cast<unsigned char>(text.front());
    // U+0080 to U+009F are control characters too; terminals obey some of them.
    const bool is_c1 = length == 2 && lead == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0;
    if (length == 0 || is_c1 || lead < 0x20 || lead == 0x7F) {
      length = std::max<size_t>(length, 1);
      for (const char c : text.substr(0, length)) {
        if (c == '\n') {
          out += "\\n";
        } else if (c == '\r') {
          out += "\\r";
        } else if (c == '\t') {
          out += "\\t";
        } else {
          out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
        }
      }
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return out;
}

std::string Quoted(std::string_view text) { return fmt::format("'{}'", Printable(text, 60)); }

std::optional<std::string_view> TextBody(std::string_view bytes, std::string_view file,
                                         size_t max_bytes, Diagnostics& diagnostics) {
  if (bytes.size() > max_bytes) {
    diagnostics.Error(
        file, 0,
        fmt::format("the file has {} bytes, at most {} are read", bytes.size(), max_bytes));
    return std::nullopt;
  }
  if (bytes.substr(0, 2) == "\xFF\xFE" || bytes.substr(0, 2) == "\xFE\xFF") {
    diagnostics.Error(file, 0, "the file is UTF-16 (save it as UTF-8)");
    return std::nullopt;
  }
  if (bytes.substr(0, 3) == "\xEF\xBB\xBF") bytes.remove_prefix(3);
  const size_t nul = bytes.find('\0');
  if (nul != std::string_view::npos) {
    const auto line =
        1 + std::count(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(nul), '\n');
    diagnostics.Error(file, static_cast<int>(line), "NUL byte: this is not a text file");
    return std::nullopt;
  }
  return bytes;
}

namespace {

// Number of insertions, deletions and replacements between two words.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replace});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view Nearest(std::string_view word, const std::vector<std::string_view>& known) {
  if (word.size() > 40) return {};
  std::string_view best;
  size_t best_distance = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string_view candidate : known) {
    const size_t distance = EditDistance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace muster
