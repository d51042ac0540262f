// What a rank executes: program, arguments and environment, and the checks that can be made before.
// Reads files of the working directory and of PATH, changes nothing. Single-threaded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/internal/shim.pb.h"

namespace muster::shim {

using Strings = google::protobuf::RepeatedPtrField<std::string>;

// One reason why nothing can start. `check` is its short name.
struct Problem {
  std::string check;
  std::string message;
  friend bool operator==(const Problem&, const Problem&) = default;
};

// One string of argv or environment may have this many bytes without its NUL (MAX_ARG_STRLEN).
inline constexpr size_t kMaxExecStringBytes = 131071;

// Bytes that argv and environment together may use in execve, pointers included, for a process with
// the stack limit of this one.
uint64_t MaxExecBytes();

// The value of `name` among `NAME=value` strings, valid as long as `env`.
std::optional<std::string_view> FindEnv(const Strings& env, std::string_view name);

// Adds `NAME=value` strings to `env`; one of a name that is there already takes its place.
void MergeEnv(Strings& env, const Strings& added);

// Where a program was found, or why not.
struct ResolvedProgram {
  // Path for execve; relative ones count from the working directory. Empty: not usable.
  std::string path;
  Problem problem;
};

// Finds `program` as execvp would for a process in `working_directory` with `path_variable`
// (nothing: no PATH is set): a name with a slash as it is, else the first executable file in PATH.
// Checks of `program-not-found` and `program-not-executable` tell the reason.
ResolvedProgram ResolveProgram(std::string_view program,
                               const std::optional<std::string>& path_variable,
                               const std::string& working_directory);

// Every reason why the ranks of `bootstrap` could not be executed: `working-directory`, `script`,
// `program-not-found`, `program-not-executable`, `arguments`. Fills `paths` with each rank's
// program. A problem that several ranks share is reported once.
std::vector<Problem> CheckExec(const internal::ShimBootstrap& bootstrap,
                               std::vector<std::string>& paths);

// Names the largest string of argv and environment, for example "the environment variable FOO
// (130000 bytes)".
std::string DescribeLargestString(const Strings& argv, const Strings& env);

}  // namespace muster::shim
