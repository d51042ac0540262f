// Deletes a directory and everything in it without ever following a symbolic link: every step is
// relative to an open directory. Thread-safe; blocks on the disk.
#pragma once

#include <absl/status/status.h>

#include <string>

namespace muster {

// Deletes `name` inside the directory `parent_fd`. OK when it does not exist. Goes on after an
// error and returns the first one.
absl::Status RemoveTree(int parent_fd, const std::string& name);

}  // namespace muster
