// What has to be known of this machine to start agents on it. Any thread.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

namespace muster {

// The program `name` in MUSTER_BIN_DIR, else beside the running one. NOT_FOUND with the path that
// was tried when it cannot be executed.
absl::StatusOr<std::string> FindProgram(const std::string& name);

// Addresses of this machine's interfaces that are up: loopback first, which every local rank can
// reach, then IPv4, IPv6 and IPv6 loopback. Link-local ones are left out.
std::vector<std::string> MachineAddresses();

}  // namespace muster
