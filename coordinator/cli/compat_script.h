// The small programs that `compat install` puts somewhere: what tells one of ours from another, and
// how one is made for a coordinator program. Pure.
#pragma once

#include <absl/status/statusor.h>

#include <array>
#include <string>
#include <string_view>

namespace muster {

// Names of the programs that can be installed.
inline constexpr std::array<std::string_view, 2> kCompatNames = {"deepspeed", "gaudi_spawn.py"};

// Whether a file with this content was made by `compat install`, of any version.
bool IsCompatScript(std::string_view content);

// The program out of its original: it executes `coordinator`, an absolute path of any bytes.
// FAILED_PRECONDITION: the original is none.
absl::StatusOr<std::string> MakeCompatScript(std::string_view original,
                                             std::string_view coordinator);

}  // namespace muster
