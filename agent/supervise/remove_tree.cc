#include "agent/supervise/remove_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string_view>
#include <vector>

#include "common/base/annotate.h"
#include "common/io/unique_fd.h"

namespace muster {
namespace {

// Deeper than anything that a launcher makes; keeps a hostile tree from exhausting the stack.
constexpr int kMostLevels = 64;

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

absl::Status Remove(int parent_fd, const std::string& name, int level) {
  if (level > kMostLevels) return absl::FailedPreconditionError(name + ": nested too deeply");
  if (::unlinkat(parent_fd, name.c_str(), 0) == 0 || errno == ENOENT) return absl::OkStatus();
  // Linux says EISDIR for a directory, POSIX EPERM.
  if (errno != EISDIR && errno != EPERM) return ErrnoStatus(errno, name);
  UniqueFd fd(::openat(parent_fd, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return errno == ENOENT ? absl::OkStatus() : ErrnoStatus(errno, name);
  const std::unique_ptr<DIR, CloseDirectory> directory(::fdopendir(fd.get()));
  if (!directory) return ErrnoStatus(errno, name);
  const int directory_fd = fd.Release();  // Closed with `directory`.
  // Names first: what readdir returns after a deletion is not specified.
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string_view one = entry->d_name;
    if (one != "." && one != "..") names.emplace_back(one);
  }
  absl::Status status;
  for (const std::string& one : names) {
    const absl::Status removed = Remove(directory_fd, one, level + 1);
    if (status.ok()) status = Annotate(removed, name);
  }
  if (::unlinkat(parent_fd, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT && status.ok()) {
    status = ErrnoStatus(errno, name);
  }
  return status;
}

}  // namespace

absl::Status RemoveTree(int parent_fd, const std::string& name) {
  return Remove(parent_fd, name, 0);
}

}  // namespace muster
