#include "coordinator/spec/core_list.h"

#include <fmt/format.h>

#include "common/base/cpu_list.h"
#include "common/config/text.h"

namespace muster {

absl::StatusOr<std::string> ParseCoreList(std::string_view text) {
  const absl::StatusOr<CpuList> cores = ParseCpuList(text);
  if (cores.ok() && !cores->empty()) return CpuListText(*cores);
  return absl::InvalidArgumentError(
      fmt::format("expected processors such as 0-9,20-29, got {}", Quoted(text)));
}

}  // namespace muster
