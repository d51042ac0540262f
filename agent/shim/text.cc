#include "agent/shim/text.h"

#include <unistd.h>

#include <cstring>
#include <ctime>

#include "common/base/utf8.h"

namespace muster::shim {

std::string ErrnoText(int error_number) {
  const char* words = strerrordesc_np(error_number);
  const char* name = strerrorname_np(error_number);
  if (words == nullptr || name == nullptr) return "error " + std::to_string(error_number);
  return std::string(words) + " (" + name + ")";
}

std::string Printable(std::string_view bytes, size_t max_bytes) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  const std::string_view shown = bytes.substr(0, max_bytes);
  for (size_t at = 0; at < shown.size();) {
    const auto byte = static_cast<unsigned char>(shown[at]);
    const size_t length = LengthOfUtf8(shown.substr(at));
    if (length == 0 || byte < 0x20 || byte == 0x7f) {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
      ++at;
    } else {
      out += shown.substr(at, length);
      at += length;
    }
  }
  if (bytes.size() > max_bytes) out += "...";
  return out;
}

std::string Quoted(std::string_view bytes) { return "'" + Printable(bytes) + "'"; }

std::string LastWords(std::string_view text, size_t max_bytes) {
  constexpr int kLines = 3;
  std::string words;
  for (int lines = 0; lines < kLines;) {
    const size_t end = text.find_last_not_of(" \t\r\n");
    if (end == std::string_view::npos) break;
    text = text.substr(0, end + 1);
    const size_t begin = text.rfind('\n') + 1;
    const std::string line = Printable(text.substr(begin), max_bytes);
    if (lines > 0 && line.size() + 3 + words.size() > max_bytes) break;
    words = words.empty() ? line : line + " | " + words;
    text = text.substr(0, begin);
    ++lines;
  }
  return words;
}

void Complain(std::string_view text) {
  timespec now = {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  tm utc = {};
  ::gmtime_r(&now.tv_sec, &utc);
  char stamp[32];
  const size_t length = ::strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%SZ", &utc);
  std::string line(stamp, length);
  line += " muster-shim: ";
  line += text;
  line += '\n';
  // There is nobody to tell that the log cannot be written.
  (void)!::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace muster::shim
