// What a command knows about the shell that it was typed in. A value: everything behind it is pure
// or reads only the files that the user named.
#pragma once

#include <absl/status/statusor.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster {

struct ClientEnv {
  // Working directory, absolute, as the shell spells it.
  std::string cwd;
  // Home directory, empty when there is none.
  std::string home;
  // Login name.
  std::string user;
  // The process environment, in its order. Names and values are bytes.
  std::vector<std::pair<std::string, std::string>> environ;

  // Value of a variable; nothing when it is not set.
  std::optional<std::string_view> Get(std::string_view name) const;
  // `path` as an absolute path: relative to `cwd`, a leading `~/` is the home directory.
  std::string Absolute(std::string_view path) const;
};

// Reads the environment of this process. Call before other threads run. FAILED_PRECONDITION: the
// working directory was removed.
absl::StatusOr<ClientEnv> ReadClientEnv();

// `path`, or `base/path` when it is relative, without `.` components and doubled slashes. `..`
// stays: with symbolic links it cannot be taken away without looking.
std::string JoinPath(std::string_view base, std::string_view path);

// The folder part of a path as written; "." when it has none.
std::string FolderOf(std::string_view path);

}  // namespace muster
