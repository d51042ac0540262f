#include "coordinator/cli/pid_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "common/base/annotate.h"
#include "common/io/unique_fd.h"

namespace muster {
namespace {

UniqueFd CreateNew(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
}

// Whether the file is one of this user's own. Its name is the id of this process, so whoever wrote
// it has ended.
bool IsStale(const std::string& path) {
  struct stat file {};
  return ::lstat(path.c_str(), &file) == 0 && S_ISREG(file.st_mode) && file.st_uid == ::geteuid();
}

}  // namespace

absl::StatusOr<std::unique_ptr<PidFile>> PidFile::Create(const std::string& folder) {
  const std::string path = fmt::format("{}/{}.deepspeed", folder, ::getpid());
  UniqueFd file = CreateNew(path);
  if (file.get() < 0 && errno == EEXIST && IsStale(path)) {
    (void)::unlink(path.c_str());
    file = CreateNew(path);
  }
  if (file.get() < 0) {
    if (errno == EEXIST) {
      return absl::AlreadyExistsError(fmt::format("{} exists and is somebody else's", path));
    }
    return ErrnoStatus(errno, path);
  }
  struct stat made {};
  const std::string text = fmt::format("{}", ::getpid());
  if (::fstat(file.get(), &made) != 0 ||
      ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    const int error = errno;
    (void)::unlink(path.c_str());
    return ErrnoStatus(error, path);
  }
  return std::unique_ptr<PidFile>(new PidFile(path, made.st_dev, made.st_ino));
}

PidFile::~PidFile() {
  struct stat now {};
  if (::lstat(path_.c_str(), &now) == 0 && now.st_dev == device_ && now.st_ino == inode_) {
    (void)::unlink(path_.c_str());
  }
}

}  // namespace muster
