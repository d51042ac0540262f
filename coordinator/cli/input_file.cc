#include "coordinator/cli/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/io/unique_fd.h"

namespace muster {
namespace {

absl::Status ReadError(int error) {
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError("no such file");
  if (error == EISDIR) return absl::FailedPreconditionError("is a folder");
  return absl::FailedPreconditionError(fmt::format("cannot be read: {}", strerror(error)));
}

}  // namespace

absl::StatusOr<std::string> ReadInputFile(const std::string& path, size_t max_bytes) {
  // A NUL would make the kernel open another file than the one in the message.
  if (path.find('\0') != std::string::npos) return absl::NotFoundError("no such file");
  int opened = -1;
  do {
    opened = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
  } while (opened < 0 && errno == EINTR);
  if (opened < 0) return ReadError(errno);
  const UniqueFd fd(opened);
  std::string content;
  while (true) {
    const size_t size = content.size();
    content.resize(size + (size == 0 ? 16 << 10 : std::min<size_t>(size, 1 << 20)));
    const ssize_t got = read(fd.get(), content.data() + size, content.size() - size);
    content.resize(size + (got > 0 ? static_cast<size_t>(got) : 0));
    if (got < 0 && errno != EINTR) return ReadError(errno);
    if (got == 0) return content;
    if (content.size() > max_bytes) {
      return absl::InvalidArgumentError(fmt::format("is larger than {} bytes", max_bytes));
    }
  }
}

std::string FileIdentity(const std::string& path) {
  struct stat file {};
  if (path.find('\0') != std::string::npos || stat(path.c_str(), &file) != 0) return "";
  return fmt::format("{}:{}", file.st_dev, file.st_ino);
}

}  // namespace muster
