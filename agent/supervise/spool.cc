#include "agent/supervise/spool.h"

#include <dirent.h>
#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "agent/supervise/attempt_directory.h"
#include "common/base/annotate.h"

namespace muster {
namespace {

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

}  // namespace

InotifySpool::InotifySpool(EventLoop& loop, std::string attempts_directory, Grew grew)
    : loop_(loop), root_(std::move(attempts_directory)), grew_(std::move(grew)) {
  inotify_.Reset(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (inotify_) {
    // New attempts, so that their first output is not found late.
    root_watch_ = ::inotify_add_watch(inotify_.get(), root_.c_str(), IN_CREATE | IN_ONLYDIR);
  }
  if (!inotify_ || root_watch_ < 0) {
    spdlog::warn("no inotify, output is polled interval_ms={} error=\"{}\"",
                 kFallbackInterval.count(), std::strerror(errno));
    inotify_.Reset();
    timer_ = loop_.PostAfter(kFallbackInterval, [this] { Poll(); });
    return;
  }
  loop_.WatchFd(inotify_.get(), EPOLLIN, [this](uint32_t) { OnReady(); });
}

InotifySpool::~InotifySpool() {
  loop_.Cancel(timer_);
  if (inotify_) loop_.UnwatchFd(inotify_.get());
}

absl::StatusOr<SpoolReader::Extent> InotifySpool::Stat(const LogFileId& file) {
  const absl::StatusOr<int> fd = OpenFile(file);
  if (!fd.ok()) return fd.status();
  if (*fd < 0) return Extent{};
  struct stat info = {};
  if (::fstat(*fd, &info) != 0) return ErrnoStatus(errno, RankLogName(file.rank));
  Extent extent;
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

absl::StatusOr<std::string> InotifySpool::Read(const LogFileId& file, uint64_t offset,
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

void InotifySpool::Forget(const AttemptId& attempt) {
  const auto it = attempts_.find(attempt);
  if (it == attempts_.end()) return;
  if (it->second.watch >= 0) {
    by_watch_.erase(it->second.watch);
    // EINVAL: the directory is gone, and the watch with it.
    (void)::inotify_rm_watch(inotify_.get(), it->second.watch);
  }
  attempts_.erase(it);
}

InotifySpool::Attempt* InotifySpool::Open(const AttemptId& id) {
  const auto it = attempts_.find(id);
  if (it != attempts_.end()) return &it->second;
  const std::string path = fmt::format("{}/{}", root_, AttemptDirectoryName(id));
  UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!directory) return nullptr;
  Attempt& attempt = attempts_[id];
  attempt.directory = std::move(directory);
  WatchAttempt(id, attempt);
  return &attempt;
}

void InotifySpool::WatchAttempt(const AttemptId& id, Attempt& attempt) {
  if (!inotify_) return;
  const std::string path = fmt::format("/proc/self/fd/{}", attempt.directory.get());
  attempt.watch =
      ::inotify_add_watch(inotify_.get(), path.c_str(), IN_MODIFY | IN_CREATE | IN_ONLYDIR);
  if (attempt.watch < 0) {
    // Looked at once a second by the shipper all the same.
    spdlog::warn("output is not watched job={} attempt={} error=\"{}\"", id.job.value(), id.attempt,
                 std::strerror(errno));
    return;
  }
  by_watch_[attempt.watch] = id;
}

absl::StatusOr<int> InotifySpool::OpenFile(const LogFileId& file) {
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

void InotifySpool::ListFiles(const AttemptId& id, const Attempt& attempt) {
  const int fd = ::openat(attempt.directory.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  const std::unique_ptr<DIR, CloseDirectory> directory(::fdopendir(fd));
  if (!directory) {
    ::close(fd);
    return;
  }
  while (const dirent* entry = ::readdir(directory.get())) {
    if (const auto rank = ParseRankLogName(entry->d_name)) grown_.insert({id, *rank});
  }
}

void InotifySpool::OnReady() {
  Drain();
  // Not looked at again before the interval is over: meanwhile any number of writes costs nothing
  // here.
  loop_.UnwatchFd(inotify_.get());
  timer_ = loop_.PostAfter(kGrowthInterval, [this] {
    timer_ = 0;
    loop_.WatchFd(inotify_.get(), EPOLLIN, [this](uint32_t) { OnReady(); });
  });
  Tell();
}

void InotifySpool::Drain() {
  alignas(inotify_event) char buffer[16384];
  while (true) {
    const ssize_t got = ::read(inotify_.get(), buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    for (ssize_t at = 0; at < got;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer + at);
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
      const std::string_view name =
          event->len > 0 ? std::string_view(event->name) : std::string_view();
      if ((event->mask & IN_Q_OVERFLOW) != 0) {
        for (const auto& [id, attempt] : attempts_) ListFiles(id, attempt);
      } else if (event->wd == root_watch_) {
        const std::optional<AttemptId> id = ParseAttemptDirectoryName(name);
        Attempt* const attempt = id ? Open(*id) : nullptr;
        // Files that were made before the watch was.
        if (attempt != nullptr) ListFiles(*id, *attempt);
      } else if (const auto it = by_watch_.find(event->wd); it != by_watch_.end()) {
        if (const auto rank = ParseRankLogName(name)) grown_.insert({it->second, *rank});
        if ((event->mask & IN_IGNORED) != 0) by_watch_.erase(it);
      }
    }
  }
}

void InotifySpool::Poll() {
  for (const auto& [id, attempt] : attempts_) ListFiles(id, attempt);
  Tell();
  timer_ = loop_.PostAfter(kFallbackInterval, [this] { Poll(); });
}

void InotifySpool::Tell() {
  for (const LogFileId& file : std::exchange(grown_, {})) grew_(file);
}

}  // namespace muster
