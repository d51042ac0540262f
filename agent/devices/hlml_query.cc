#include "agent/devices/hlml_query.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "agent/devices/hl_smi.h"
#include "agent/devices/run_program.h"

namespace muster {

absl::StatusOr<v1::Node> QueryHlml(const HlmlCall& call) {
  const LogFolder logs;
  const absl::StatusOr<std::string> bytes =
      RunProgram({.program = call.program,
                  .argv = {"agent", kHlmlQueryCommand, call.library},
                  .environ = VendorEnvironment(call.environ, logs.path()),
                  .limit = call.limit});
  if (!bytes.ok()) return bytes.status();
  v1::Node node;
  if (!node.ParseFromString(*bytes)) {
    return absl::DataLossError(call.library + ": the answer cannot be read");
  }
  return node;
}

std::string FindHlml(const std::string& root, std::string_view library_path) {
  std::vector<std::string> folders = {root + "/usr/lib/habanalabs"};
  while (root.empty() && !library_path.empty()) {
    const size_t end = std::min(library_path.find(':'), library_path.size());
    if (library_path.starts_with('/')) folders.emplace_back(library_path.substr(0, end));
    library_path.remove_prefix(std::min(end + 1, library_path.size()));
  }
  for (const std::string& folder : folders) {
    std::string path = folder + "/libhlml.so";
    if (::access(path.c_str(), R_OK) == 0) return path;
  }
  return "";
}

}  // namespace muster
