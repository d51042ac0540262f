// A lock on a directory, held as long as the object lives and released by the kernel when the
// process ends, however it ends. Keeps two coordinators from using one state directory. Not
// thread-safe.
#pragma once

#include <absl/status/statusor.h>

#include <optional>
#include <string>

#include "common/io/unique_fd.h"

namespace muster {

class DirectoryLock {
 public:
  // Locks DIRECTORY/lock, which is made with mode 0600 when it is missing. Never waits.
  // FAILED_PRECONDITION: somebody else holds it; the text names the process when it is known.
  static absl::StatusOr<DirectoryLock> Acquire(const std::string& directory);

  // Joins others that only look, and keeps out whoever wants the lock for itself.
  static absl::StatusOr<DirectoryLock> AcquireShared(const std::string& directory);

  // True when nobody holds the lock of `directory` for itself, or there is none.
  static bool IsFree(const std::string& directory);

 private:
  static absl::StatusOr<DirectoryLock> Lock(const std::string& directory, int operation);
  explicit DirectoryLock(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace muster
