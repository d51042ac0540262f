// Lists of processors as people and Linux write them: `0-5,24-29`. Pure; usable from any thread.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// Numbers of processors, ascending, each once.
using CpuList = std::vector<uint32_t>;

// Numbers and ranges, with commas between; blanks and a newline around are ignored. The empty text
// is the empty list. INVALID_ARGUMENT: anything else, and numbers beyond 65535.
absl::StatusOr<CpuList> ParseCpuList(std::string_view text);

// `0-5,24-29`; empty for no processor.
std::string CpuListText(const CpuList& cpus);

}  // namespace muster
