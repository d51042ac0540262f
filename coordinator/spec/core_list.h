// Lists of processors to bind ranks to, as deepspeed's --bind_core_list has them: `0-9,20-29`.
// Pure.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

namespace muster {

// The list in one form: ascending, without repeats and blanks, neighbours joined (`0-9,20-29`).
// INVALID_ARGUMENT says what is wrong, without naming the flag or key. An empty list is an error.
absl::StatusOr<std::string> ParseCoreList(std::string_view text);

}  // namespace muster
