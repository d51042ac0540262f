// Finds and reads the configuration file of a daemon. Blocks on the disk; any thread.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <string>

namespace muster {

// The value of an environment variable; empty when it is not set.
using VariableLookup = std::function<std::string(const char* name)>;

// The file `name` ("agent.yaml") that a daemon reads unless it is told another: in
// $MUSTER_CONFIG_DIR when that is set; else, unless root asks, in $XDG_CONFIG_HOME/muster
// (~/.config/muster); else in /etc/muster. Empty when there is none.
std::string FindConfigFile(const std::string& name, const VariableLookup& variable);

// The bytes of the file, of one that is longer than `max_bytes` more than that. INVALID_ARGUMENT
// when it cannot be read; the text says why and does not name the file.
absl::StatusOr<std::string> ReadConfigFile(const std::string& path, size_t max_bytes);

}  // namespace muster
