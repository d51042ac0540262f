#include "coordinator/plan/exec_limits.h"

#include <absl/container/flat_hash_map.h>
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "common/config/text.h"
#include "coordinator/spec/env_names.h"

namespace muster {
namespace {

// Bytes of a pointer and a NUL that come with every string.
constexpr uint64_t kOverheadBytes = sizeof(char*) + 1;

struct Value {
  uint64_t bytes = 0;
  const v1::EnvAssignment* last = nullptr;
};
using Values = absl::flat_hash_map<std::string_view, Value>;

bool HasNul(std::string_view text) { return text.find('\0') != std::string_view::npos; }

std::string Where(const v1::EnvAssignment& assignment) {
  return assignment.source().empty() ? "" : fmt::format(" ({})", assignment.source());
}

// Applies one assignment to the sizes known so far. Only sizes: the values themselves can be huge.
void Apply(const v1::EnvAssignment& assignment, Values& values, std::vector<std::string>& reasons) {
  if (!IsValidEnvName(assignment.name())) {
    reasons.push_back(fmt::format("{}{} is no name for an environment variable",
                                  Quoted(assignment.name()), Where(assignment)));
    return;
  }
  uint64_t bytes = 0;
  for (const v1::EnvPart& part : assignment.parts()) {
    if (HasNul(part.literal())) {
      reasons.push_back(fmt::format("the value of environment variable {}{} has a NUL byte",
                                    assignment.name(), Where(assignment)));
    }
    bytes += part.literal().size();
    if (auto it = values.find(part.variable()); it != values.end()) bytes += it->second.bytes;
  }
  if (bytes > kMaxValueBytes) {
    reasons.push_back(
        fmt::format("environment variable {}{} is too long: it would grow beyond {} bytes",
                    assignment.name(), Where(assignment), kMaxValueBytes));
    bytes = 0;
  }
  values[assignment.name()] = {bytes, &assignment};
}

}  // namespace

std::vector<std::string> CheckExecutable(
    const google::protobuf::RepeatedPtrField<std::string>& argv, const EnvAssignments& env,
    const EnvAssignments& node_env) {
  std::vector<std::string> reasons;
  uint64_t total = 0;
  uint64_t largest = 0;
  std::string largest_name = "nothing";
  if (argv.empty() || argv[0].empty()) reasons.push_back("there is no program to execute");
  for (int i = 0; i < argv.size(); ++i) {
    const uint64_t bytes = argv[i].size();
    if (HasNul(argv[i])) reasons.push_back(fmt::format("argument {} has a NUL byte", i));
    if (bytes > kMaxExecStringBytes) {
      reasons.push_back(
          fmt::format("argument {} ({}) is too long: {} bytes, a program takes at most {} in one",
                      i, Quoted(argv[i]), bytes, kMaxExecStringBytes));
    }
    total += bytes + kOverheadBytes;
    if (bytes > largest) {
      largest = bytes;
      largest_name = fmt::format("argument {}", i);
    }
  }
  Values values;
  for (const v1::EnvAssignment& assignment : env) Apply(assignment, values, reasons);
  for (const v1::EnvAssignment& assignment : node_env) Apply(assignment, values, reasons);
  std::vector<std::string> too_long;
  for (const auto& [name, value] : values) {
    const uint64_t bytes = name.size() + 1 + value.bytes;
    if (bytes > kMaxExecStringBytes) {
      too_long.push_back(
          fmt::format("environment variable {}{} is too long: {} bytes with its name, a program "
                      "takes at most {}",
                      name, Where(*value.last), bytes, kMaxExecStringBytes));
    }
    total += bytes + kOverheadBytes;
    if (bytes > largest) {
      largest = bytes;
      largest_name = fmt::format("environment variable {}", name);
    }
  }
  std::sort(too_long.begin(), too_long.end());
  reasons.insert(reasons.end(), too_long.begin(), too_long.end());
  if (total > kMaxExecTotalBytes) {
    reasons.push_back(
        fmt::format("arguments and environment are too long together: {} bytes, a program takes at "
                    "most {}; the "
                    "largest is {} with {}",
                    total, kMaxExecTotalBytes, largest_name, largest));
  }
  return reasons;
}

}  // namespace muster
