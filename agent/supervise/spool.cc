#include "agent/supervise/spool.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "agent/supervise/attempt_directory.h"
#include "common/base/annotate.h"

namespace muster {

absl::StatusOr<SpoolReader::Extent> FileSpool::Stat(const LogFileId& file) {
  const absl::StatusOr<int> fd = OpenFile(file);
  if (!fd.ok()) return fd.status();
  Extent extent;
  const auto fixed = fixed_.find(file);
  extent.fixed = fixed == fixed_.end() ? 0 : fixed->second;
  if (*fd < 0) return extent;
  struct stat info = {};
  if (::fstat(*fd, &info) != 0) return ErrnoStatus(errno, RankLogName(file.rank));
  extent.end = static_cast<uint64_t>(info.st_size);
  if (extent.end == 0) return extent;
  const off_t data = ::lseek(*fd, 0, SEEK_DATA);
  if (data >= 0) {
    extent.begin = static_cast<uint64_t>(data);
  } else if (errno == ENXIO) {
    extent.begin = extent.end;  // Holes only.
  }
  // EINVAL: a file system that cannot tell; then nothing was given up either.
  return extent;
}

absl::StatusOr<std::string> FileSpool::Read(const LogFileId& file, uint64_t offset,
                                            uint64_t max_bytes) {
  const absl::StatusOr<int> fd = OpenFile(file);
  if (!fd.ok()) return fd.status();
  std::string bytes;
  if (*fd < 0) return bytes;
  bytes.resize(max_bytes);
  ssize_t got = 0;
  do {
    got = ::pread(*fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
  } while (got < 0 && errno == EINTR);
  if (got < 0) return ErrnoStatus(errno, RankLogName(file.rank));
  bytes.resize(static_cast<size_t>(got));
  return bytes;
}

SpoolReader::Run FileSpool::RunAt(const LogFileId& file, uint64_t offset) {
  const absl::StatusOr<int> fd = OpenFile(file);
  if (!fd.ok() || *fd < 0) return {};
  const auto begin = static_cast<off_t>(offset);
  const off_t data = ::lseek(*fd, begin, SEEK_DATA);
  // Behind the last data (ENXIO) is the end, which is never far: files end with data.
  if (data < 0) return {};
  if (data > begin) return {.zeros = true, .bytes = static_cast<uint64_t>(data - begin)};
  const off_t hole = ::lseek(*fd, begin, SEEK_HOLE);
  return hole > begin ? Run{.bytes = static_cast<uint64_t>(hole - begin)} : Run{};
}

void FileSpool::Forget(const AttemptId& attempt) {
  attempts_.erase(attempt);
  std::erase_if(fixed_, [&](const auto& entry) { return entry.first.attempt == attempt; });
}

FileSpool::Attempt* FileSpool::Open(const AttemptId& id) {
  const auto it = attempts_.find(id);
  if (it != attempts_.end()) return &it->second;
  const std::string path = fmt::format("{}/{}", root_, AttemptDirectoryName(id));
  UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!directory) return nullptr;
  Attempt& attempt = attempts_[id];
  attempt.directory = std::move(directory);
  return &attempt;
}

absl::StatusOr<int> FileSpool::OpenFile(const LogFileId& file) {
  Attempt* const attempt = Open(file.attempt);
  if (attempt == nullptr) return -1;
  const auto it = attempt->files.find(file.rank);
  if (it != attempt->files.end()) return it->second.get();
  const std::string name = RankLogName(file.rank);
  UniqueFd fd(::openat(attempt->directory.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) {
    if (errno == ENOENT) return -1;
    return ErrnoStatus(errno, name);
  }
  return attempt->files.emplace(file.rank, std::move(fd)).first->second.get();
}

}  // namespace muster
