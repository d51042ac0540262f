// What the kernel takes in one execve, checked before anything is sent. Pure; usable from any
// thread. Sizes are lower bounds: values of the node's own environment are not known here, so the
// node checks again.
#pragma once

#include <google/protobuf/repeated_ptr_field.h>

#include <cstdint>
#include <string>
#include <vector>

#include "muster/v1/types.pb.h"

namespace muster {

// Longest argument, and longest `NAME=value`, in bytes: 32 pages less the final NUL.
inline constexpr uint64_t kMaxExecStringBytes = 32 * 4096 - 1;
// Most bytes of arguments and environment together that any stack limit allows, pointers included.
inline constexpr uint64_t kMaxExecTotalBytes = 6 << 20;
// Largest value that may exist while assignments are applied. Keeps `A=$A$A` from filling a node.
inline constexpr uint64_t kMaxValueBytes = 16 << 20;

using EnvAssignments = google::protobuf::RepeatedPtrField<v1::EnvAssignment>;

// Reasons why a program with these arguments and this environment (`env`, then `node_env` on top)
// could never be executed: strings that are too long, NUL bytes, an empty program, invalid names.
// Empty when there is none.
std::vector<std::string> CheckExecutable(
    const google::protobuf::RepeatedPtrField<std::string>& argv, const EnvAssignments& env,
    const EnvAssignments& node_env);

}  // namespace muster
