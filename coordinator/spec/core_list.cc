#include "coordinator/spec/core_list.h"

#include <fmt/format.h>

#include <vector>

#include "common/config/text.h"
#include "coordinator/spec/host_list.h"

namespace muster {

absl::StatusOr<std::string> ParseCoreList(std::string_view text) {
  std::string compact;
  for (const char c : text) {
    if (!IsBlank(c)) compact += c;
  }
  if (compact.empty()) return absl::InvalidArgumentError("expected processors such as 0-9,20-29");
  std::vector<uint32_t> cores;
  if (!ParseSlotList(compact, kMaxCores, cores).empty()) {
    return absl::InvalidArgumentError(fmt::format(
        "expected processors below {} such as 0-9,20-29, got {}", kMaxCores, Quoted(text)));
  }
  std::string list;
  for (size_t i = 0; i < cores.size();) {
    size_t last = i;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
    if (!list.empty()) list += ',';
    list += last == i ? fmt::format("{}", cores[i]) : fmt::format("{}-{}", cores[i], cores[last]);
    i = last + 1;
  }
  return list;
}

}  // namespace muster
