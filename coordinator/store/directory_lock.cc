#include "coordinator/store/directory_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "common/base/annotate.h"

namespace muster {
namespace {

std::string LockPath(const std::string& directory) { return directory + "/lock"; }

// What the holder wrote, for the error text only; empty when it is not readable.
std::string HolderText(int fd) {
  char text[64];
  const ssize_t n = ::pread(fd, text, sizeof text, 0);
  std::string_view holder(text, n > 0 ? static_cast<size_t>(n) : 0);
  while (!holder.empty() && holder.back() == '\n') holder.remove_suffix(1);
  return holder.empty() ? std::string() : fmt::format(" by process {}", holder);
}

}  // namespace

absl::StatusOr<DirectoryLock> DirectoryLock::Acquire(const std::string& directory) {
  absl::StatusOr<DirectoryLock> lock = Lock(directory, LOCK_EX);
  if (!lock.ok()) return lock;
  // Only for people; a full disk does not matter here.
  const int fd = lock->fd_.get();
  const std::string pid = fmt::format("{}\n", ::getpid());
  if (::ftruncate(fd, 0) == 0) (void)!::pwrite(fd, pid.data(), pid.size(), 0);
  return lock;
}

absl::StatusOr<DirectoryLock> DirectoryLock::AcquireShared(const std::string& directory) {
  return Lock(directory, LOCK_SH);
}

absl::StatusOr<DirectoryLock> DirectoryLock::Lock(const std::string& directory, int operation) {
  const std::string path = LockPath(directory);
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return ErrnoStatus(errno, fmt::format("open {}", path));
  if (::flock(fd.get(), operation | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return ErrnoStatus(errno, fmt::format("lock {}", path));
    return absl::FailedPreconditionError(
        fmt::format("{} is in use{}: stop the other coordinator, or use another directory",
                    directory, HolderText(fd.get())));
  }
  return DirectoryLock(std::move(fd));
}

bool DirectoryLock::IsFree(const std::string& directory) {
  const UniqueFd fd(::open(LockPath(directory).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return errno == ENOENT || errno == ENOTDIR;
  // Released again by the destructor.
  return ::flock(fd.get(), LOCK_SH | LOCK_NB) == 0;
}

}  // namespace muster
