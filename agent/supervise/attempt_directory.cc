#include "agent/supervise/attempt_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "common/base/annotate.h"
#include "common/io/record_log.h"

namespace muster {
namespace {

template <typename Number>
bool ParseNumber(std::string_view text, Number* value) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), *value);
  return result.ec == std::errc() && result.ptr == text.data() + text.size() && !text.empty();
}

}  // namespace

std::string AttemptDirectoryName(const AttemptId& id) {
  return fmt::format("{}.{}", id.job.value(), id.attempt);
}

std::optional<AttemptId> ParseAttemptDirectoryName(std::string_view name) {
  const size_t dot = name.rfind('.');
  AttemptId id;
  if (dot == 0 || dot == std::string_view::npos ||
      !ParseNumber(name.substr(dot + 1), &id.attempt)) {
    return std::nullopt;
  }
  id.job = JobId(std::string(name.substr(0, dot)));
  // Only what AttemptDirectoryName makes, so that "j.01" is not taken for "j.1".
  if (AttemptDirectoryName(id) != name) return std::nullopt;
  return id;
}

std::string RankLogName(uint32_t rank) { return fmt::format("rank-{:05}.log", rank); }

std::optional<uint32_t> ParseRankLogName(std::string_view name) {
  constexpr std::string_view kBegin = "rank-";
  constexpr std::string_view kEnd = ".log";
  if (name.size() <= kBegin.size() + kEnd.size() || !name.starts_with(kBegin) ||
      !name.ends_with(kEnd)) {
    return std::nullopt;
  }
  uint32_t rank = 0;
  const std::string_view digits =
      name.substr(kBegin.size(), name.size() - kBegin.size() - kEnd.size());
  if (!ParseNumber(digits, &rank) || RankLogName(rank) != name) return std::nullopt;
  return rank;
}

absl::StatusOr<AttemptDirectory> AttemptDirectory::Create(int root_fd, const std::string& root,
                                                          const AttemptId& id) {
  const std::string name = AttemptDirectoryName(id);
  if (::mkdirat(root_fd, name.c_str(), 0700) != 0) {
    if (errno == EEXIST) return absl::AlreadyExistsError(name);
    return ErrnoStatus(errno, fmt::format("{}/{}: cannot be made", root, name));
  }
  return Open(root_fd, root, id);
}

absl::StatusOr<AttemptDirectory> AttemptDirectory::Open(int root_fd, const std::string& root,
                                                        const AttemptId& id) {
  const std::string name = AttemptDirectoryName(id);
  UniqueFd fd(::openat(root_fd, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) {
    if (errno == ENOENT) return absl::NotFoundError(name);
    return ErrnoStatus(errno, fmt::format("{}/{}", root, name));
  }
  return AttemptDirectory(std::move(fd), fmt::format("{}/{}", root, name));
}

absl::StatusOr<bool> AttemptDirectory::TryLock() {
  if (lock_) return true;
  UniqueFd lock(::openat(fd_.get(), kLockFile, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!lock) return ErrnoStatus(errno, fmt::format("{}/{}", path_, kLockFile));
  while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return false;
    if (errno != EINTR) return ErrnoStatus(errno, fmt::format("{}/{}: flock", path_, kLockFile));
  }
  lock_ = std::move(lock);
  return true;
}

absl::Status AttemptDirectory::ReadRecords(
    uint64_t next, const std::function<bool(const internal::ShimRecord&)>& visit) const {
  const UniqueFd file(::openat(fd_.get(), kRecordsFile, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!file) {
    if (errno == ENOENT) return absl::OkStatus();
    return ErrnoStatus(errno, fmt::format("{}/{}", path_, kRecordsFile));
  }
  absl::Status status;
  RecordLogEnd end;
  const std::error_code error = ReadRecordLog(file.get(), 0, end, [&](std::string_view bytes) {
    internal::ShimRecord record;
    if (!record.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      status = absl::DataLossError(
          fmt::format("{}/{}: a record is not understood", path_, kRecordsFile));
      return false;
    }
    if (record.index() < next) return true;
    if (record.index() > next) {
      status = absl::DataLossError(fmt::format("{}/{}: record {} is followed by {}", path_,
                                               kRecordsFile, next - 1, record.index()));
      return false;
    }
    ++next;
    return visit(record);
  });
  if (error) return ErrnoStatus(error.value(), fmt::format("{}/{}", path_, kRecordsFile));
  return status;
}

std::string AttemptDirectory::ReadText(const char* name, size_t most_bytes) const {
  const UniqueFd file(::openat(fd_.get(), name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!file) return "";
  std::string text(most_bytes, '\0');
  const ssize_t got = ::pread(file.get(), text.data(), text.size(), 0);
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return text;
}

absl::Status AttemptDirectory::WriteText(const char* name, std::string_view text) const {
  const UniqueFd file(
      ::openat(fd_.get(), name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return ErrnoStatus(errno, fmt::format("{}/{}", path_, name));
  const ssize_t written = ::write(file.get(), text.data(), text.size());
  if (written < 0) return ErrnoStatus(errno, fmt::format("{}/{}", path_, name));
  if (static_cast<size_t>(written) != text.size())
    return ErrnoStatus(ENOSPC, fmt::format("{}/{}", path_, name));
  return absl::OkStatus();
}

}  // namespace muster
