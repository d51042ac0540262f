#include "coordinator/logs/carriage_return.h"

#include <algorithm>
#include <cstring>

namespace muster {

std::string_view NewestState(std::string_view line) {
  while (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  const void* at = memrchr(line.data(), '\r', line.size());
  if (at != nullptr) line.remove_prefix(static_cast<const char*>(at) - line.data() + 1);
  return line;
}

bool HoldLine(std::string_view& rest, size_t max_bytes, std::string& held) {
  while (held.size() + rest.size() > max_bytes) {
    const size_t take = max_bytes - std::min(held.size(), max_bytes);
    held.append(rest.substr(0, take));
    rest.remove_prefix(take);
    const std::string_view state = NewestState(held);
    const size_t overwritten = static_cast<size_t>(state.data() - held.data());
    if (overwritten > 0) {
      // The carriage return stays: it marks the text as a progress bar.
      held.erase(0, overwritten - 1);
      if (held.size() < max_bytes) continue;
    }
    return true;
  }
  held.append(rest);
  rest = {};
  return false;
}

}  // namespace muster
