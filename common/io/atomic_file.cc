#include "common/io/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "common/io/unique_fd.h"

namespace muster {
namespace {

std::error_code LastError() { return {errno, std::generic_category()}; }

std::error_code WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return LastError();
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return {};
}

std::error_code SyncDirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "."
                                : slash == 0               ? "/"
                                                           : path.substr(0, slash);
  const UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || ::fsync(fd.get()) != 0) return LastError();
  return {};
}

std::error_code WriteTemporary(int fd, std::string_view bytes, mode_t mode, Durability durability) {
  if (::fchmod(fd, mode) != 0) return LastError();
  if (const std::error_code error = WriteAll(fd, bytes)) return error;
  if (durability == Durability::kPowerLoss && ::fsync(fd) != 0) return LastError();
  return {};
}

}  // namespace

std::error_code WriteFileAtomically(const std::string& path, std::string_view bytes, mode_t mode,
                                    Durability durability) {
  std::string temporary = path + ".XXXXXX";
  UniqueFd fd(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd) return LastError();
  std::error_code error = WriteTemporary(fd.get(), bytes, mode, durability);
  // NFS reports a full disk at close.
  if (::close(fd.Release()) != 0 && !error) error = LastError();
  if (!error && ::rename(temporary.c_str(), path.c_str()) != 0) error = LastError();
  if (error) {
    (void)::unlink(temporary.c_str());
    return error;
  }
  return durability == Durability::kPowerLoss ? SyncDirectoryOf(path) : std::error_code();
}

std::error_code ReadFile(const std::string& path, std::string& bytes, size_t max_bytes) {
  bytes.clear();
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return LastError();
  return ReadFile(fd.get(), bytes, max_bytes);
}

std::error_code ReadFile(int fd, std::string& bytes, size_t max_bytes) {
  bytes.clear();
  char chunk[16 * 1024];
  while (true) {
    const ssize_t count = ::read(fd, chunk, sizeof(chunk));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return LastError();
    if (count == 0) return {};
    if (bytes.size() + static_cast<size_t>(count) > max_bytes) {
      return {EFBIG, std::generic_category()};
    }
    bytes.append(chunk, static_cast<size_t>(count));
  }
}

}  // namespace muster
