// Names of signals and of the ways a process ends. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace muster {

// "SIGKILL" for 9; "signal 70" for one without a name.
std::string SignalName(int signal);

// 9 for "SIGKILL", "KILL", "kill" or "9"; nothing for anything else.
std::optional<int> ParseSignal(std::string_view text);

}  // namespace muster
