#include "coordinator/logs/log_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include "common/base/annotate.h"
#include "common/log/log.h"
#include "coordinator/logs/tail.h"

namespace muster {
namespace {

// Files kept open for writing. Reading opens per call.
constexpr size_t kMaxOpenFiles = 256;

// Fewer zeros are written like anything else.
constexpr size_t kLeastZeros = size_t{16} << 10;

// The id becomes a path component and may come from a peer.
bool IsJobId(const std::string& id) {
  if (id.empty() || id.size() > 63) return false;
  return std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

absl::Status MakeDirectory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return absl::OkStatus();
  return ErrnoStatus(errno, fmt::format("make directory {}", path));
}

absl::Status Exhausted(int error_number, const std::string& path) {
  return absl::ResourceExhaustedError(
      ToAbsl(MessageOf(ErrnoStatus(error_number, fmt::format("write {}", path)))));
}

// Appends zeros to a file of `size` bytes without writing them; false: it did not. The padding of
// holes comes this way, and takes as little room here as at its source.
bool ExtendByZeros(int fd, uint64_t size, std::string_view data) {
  if (data.size() < kLeastZeros || data.front() != 0 ||
      std::memcmp(data.data(), data.data() + 1, data.size() - 1) != 0) {
    return false;
  }
  struct stat info = {};
  return ::fstat(fd, &info) == 0 && info.st_size == static_cast<off_t>(size) &&
         ::ftruncate(fd, static_cast<off_t>(size + data.size())) == 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LogStore>> LogStore::Open(Options options) {
  absl::Status made = MakeDirectory(options.directory);
  if (!made.ok()) return made;
  return std::unique_ptr<LogStore>(new LogStore(std::move(options)));
}

LogStore::~LogStore() {
  // The writer first: its callbacks may post reads. Reads posted after the reader ended are
  // dropped.
  writer_.Stop();
  reader_.Stop();
}

std::string LogStore::PathOf(const StoredLogId& file) const {
  if (!IsJobId(file.attempt.job.value())) return "";
  return fmt::format("{}/{}/{}/rank-{:05}.log", options_.directory, file.attempt.job.value(),
                     file.attempt.attempt, file.rank.value);
}

void LogStore::PostRead(WorkerThread::Task task) { reader_.Post(std::move(task)); }

void LogStore::Append(const StoredLogId& file, uint64_t offset, std::string data, AppendDone done) {
  {
    MutexLock lock(mutex_);
    pending_.push_back(Write{file, offset, std::move(data), std::move(done)});
    if (std::exchange(draining_, true)) return;
  }
  writer_.Post([this] { DrainWrites(); });
}

void LogStore::DrainWrites() {
  std::vector<Write> batch;
  {
    MutexLock lock(mutex_);
    batch.swap(pending_);
    draining_ = false;
  }
  std::vector<absl::StatusOr<uint64_t>> results;
  results.reserve(batch.size());
  absl::flat_hash_map<StoredLogId, uint64_t> grown;
  for (Write& write : batch) {
    results.push_back(WriteOne(write));
    // Free the bytes as soon as they are written.
    write.data = std::string();
    const auto used = files_.find(write.file);
    if (used != files_.end() && used->second.committed > used->second.synced) {
      grown[write.file] = used->second.committed;
    }
  }
  if (options_.durable) SyncFiles(batch, results, grown);
  for (const auto& [id, size] : grown) files_[id].synced = size;
  Tell(grown);
  for (size_t i = 0; i < batch.size(); ++i) batch[i].done(std::move(results[i]));
  CloseIdle();
}

void LogStore::SyncFiles(const std::vector<Write>& batch,
                         std::vector<absl::StatusOr<uint64_t>>& results,
                         absl::flat_hash_map<StoredLogId, uint64_t>& grown) {
  for (auto it = grown.begin(); it != grown.end();) {
    const StoredLogId id = it->first;
    File& file = files_[id];
    const auto current = it++;
    if (::fdatasync(file.fd.get()) == 0) continue;
    // The kernel may have thrown away what it could not write, so everything since the last good
    // sync is given up, and the source sends it again.
    const absl::Status failed = Exhausted(errno, PathOf(id));
    for (size_t i = 0; i < batch.size(); ++i) {
      if (batch[i].file == id && results[i].ok()) results[i] = failed;
    }
    file.committed = file.synced;
    // Should this fail too, the next write overwrites what is there.
    (void)!::ftruncate(file.fd.get(), static_cast<off_t>(file.synced));
    NoteTrouble(id, failed);
    grown.erase(current);
  }
}

absl::StatusOr<uint64_t> LogStore::WriteOne(Write& write) {
  absl::StatusOr<File*> opened = OpenForWrite(write.file);
  if (!opened.ok()) {
    if (absl::IsResourceExhausted(opened.status())) NoteTrouble(write.file, opened.status());
    return opened.status();
  }
  File& file = **opened;
  if (write.offset > file.committed) {
    return absl::FailedPreconditionError(
        fmt::format("log of job {} attempt {} rank {}: chunk begins at {}, but only {} bytes are "
                    "stored: a gap",
                    write.file.attempt.job.value(), write.file.attempt.attempt,
                    write.file.rank.value, write.offset, file.committed));
  }
  const uint64_t stored = file.committed - write.offset;
  if (stored >= write.data.size()) return file.committed;
  const char* data = write.data.data() + stored;
  size_t left = write.data.size() - stored;
  if (ExtendByZeros(file.fd.get(), file.committed, {data, left})) {
    file.committed += left;
    left = 0;
  }
  while (left > 0) {
    const ssize_t n = ::pwrite(file.fd.get(), data, left, static_cast<off_t>(file.committed));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      absl::Status failed = Exhausted(n < 0 ? errno : ENOSPC, PathOf(write.file));
      NoteTrouble(write.file, failed);
      return failed;
    }
    data += n;
    left -= static_cast<size_t>(n);
    file.committed += static_cast<uint64_t>(n);
  }
  NoteGood(write.file);
  return file.committed;
}

absl::StatusOr<LogStore::File*> LogStore::OpenForWrite(const StoredLogId& id) {
  const auto [it, fresh] = files_.try_emplace(id);
  File& file = it->second;
  if (file.fd) return &file;
  const std::string path = PathOf(id);
  if (path.empty()) {
    files_.erase(it);
    return absl::InvalidArgumentError("log file of something that is no job");
  }
  constexpr int kFlags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
  file.fd.Reset(::open(path.c_str(), kFlags, 0600));
  if (!file.fd && errno == ENOENT) {
    const std::string attempt_directory = path.substr(0, path.rfind('/'));
    const std::string job_directory = attempt_directory.substr(0, attempt_directory.rfind('/'));
    (void)MakeDirectory(job_directory);  // a failure shows in the next step
    (void)MakeDirectory(attempt_directory);
    file.fd.Reset(::open(path.c_str(), kFlags, 0600));
  }
  struct stat info;
  if (!file.fd || ::fstat(file.fd.get(), &info) != 0) {
    absl::Status failed = Exhausted(errno, path);
    files_.erase(it);
    return failed;
  }
  file.committed = static_cast<uint64_t>(info.st_size);
  file.synced = file.committed;
  return &file;
}

void LogStore::CloseIdle() {
  if (files_.size() <= kMaxOpenFiles) return;
  // All of them: a file that is written again is opened again, which costs microseconds, and more
  // than this many at a time are rare.
  files_.clear();
}

void LogStore::Tell(const absl::flat_hash_map<StoredLogId, uint64_t>& grown) {
  std::vector<std::pair<std::shared_ptr<LogListener>, std::pair<StoredLogId, uint64_t>>> calls;
  {
    MutexLock lock(mutex_);
    const std::shared_ptr<LogListener> global = global_listener_.lock();
    for (const auto& [id, size] : grown) {
      known_[id].committed = size;
      if (global) calls.push_back({global, {id, size}});
      const auto found = listeners_.find(id.attempt);
      if (found == listeners_.end()) continue;
      for (const std::weak_ptr<LogListener>& weak : found->second) {
        if (std::shared_ptr<LogListener> listener = weak.lock()) {
          calls.push_back({std::move(listener), {id, size}});
        }
      }
    }
  }
  for (auto& [listener, growth] : calls) listener->OnLogGrowth(growth.first, growth.second);
}

void LogStore::NoteTrouble(const StoredLogId& id, const absl::Status& status) {
  {
    MutexLock lock(mutex_);
    if (std::exchange(known_[id].blocked, true)) return;
  }
  ++blocked_files_;
  if (std::exchange(trouble_told_, true)) return;
  const std::string message =
      fmt::format("output cannot be stored: {}; the job goes on, its output waits on the nodes",
                  MessageOf(status));
  spdlog::warn("log write failed job={} attempt={} rank={} error={}", id.attempt.job.value(),
               id.attempt.attempt, id.rank.value, LogQuoted(MessageOf(status)));
  if (options_.on_trouble) options_.on_trouble(message);
}

void LogStore::NoteGood(const StoredLogId& id) {
  if (blocked_files_ == 0) return;
  {
    MutexLock lock(mutex_);
    if (!std::exchange(known_[id].blocked, false)) return;
  }
  if (--blocked_files_ > 0) return;
  trouble_told_ = false;
  spdlog::info("log files can be written again directory={}", LogQuoted(options_.directory));
  if (options_.on_trouble) options_.on_trouble("output can be stored again");
}

void LogStore::GetCommitted(std::vector<StoredLogId> files,
                            std::function<void(absl::StatusOr<std::vector<uint64_t>>)> done) {
  writer_.Post([this, files = std::move(files), done = std::move(done)] {
    std::vector<uint64_t> sizes;
    sizes.reserve(files.size());
    for (const StoredLogId& id : files) {
      // A file in use is known better here than on the disk.
      const auto used = files_.find(id);
      if (used != files_.end() && used->second.fd) {
        sizes.push_back(used->second.committed);
        continue;
      }
      absl::StatusOr<uint64_t> size = SizeOnDisk(id);
      if (!size.ok()) {
        done(size.status());
        return;
      }
      MutexLock lock(mutex_);
      known_[id].committed = *size;
      sizes.push_back(*size);
    }
    done(std::move(sizes));
  });
}

absl::StatusOr<uint64_t> LogStore::SizeOnDisk(const StoredLogId& id) const {
  const std::string path = PathOf(id);
  struct stat info;
  if (path.empty() || ::lstat(path.c_str(), &info) != 0) {
    if (path.empty() || errno == ENOENT || errno == ENOTDIR) return 0;
    return ErrnoStatus(errno, fmt::format("look at {}", path));
  }
  if (!S_ISREG(info.st_mode)) {
    return absl::FailedPreconditionError(fmt::format("{} is not a regular file", path));
  }
  return static_cast<uint64_t>(info.st_size);
}

void LogStore::Forget(const JobId& job) {
  writer_.Post([this, job] {
    absl::erase_if(files_, [&](const auto& entry) { return entry.first.attempt.job == job; });
    {
      MutexLock lock(mutex_);
      absl::erase_if(known_, [&](const auto& entry) { return entry.first.attempt.job == job; });
    }
    if (!IsJobId(job.value())) return;
    std::error_code error;
    std::filesystem::remove_all(fmt::format("{}/{}", options_.directory, job.value()), error);
    if (error) {
      spdlog::warn("logs not deleted job={} error={}", job.value(), LogQuoted(error.message()));
    }
  });
}

uint64_t LogStore::CommittedSize(const StoredLogId& id) const {
  {
    MutexLock lock(mutex_);
    const auto found = known_.find(id);
    if (found != known_.end()) return found->second.committed;
  }
  const absl::StatusOr<uint64_t> size = SizeOnDisk(id);
  if (!size.ok()) return 0;
  MutexLock lock(mutex_);
  // The writer may have been quicker; what it says is newer.
  return known_.try_emplace(id, Known{*size, false}).first->second.committed;
}

bool LogStore::Blocked(const StoredLogId& id) const {
  MutexLock lock(mutex_);
  const auto found = known_.find(id);
  return found != known_.end() && found->second.blocked;
}

absl::StatusOr<std::string> LogStore::Read(const StoredLogId& id, uint64_t offset,
                                           size_t max_bytes) const {
  const uint64_t committed = CommittedSize(id);
  std::string data;
  if (offset >= committed) return data;
  const std::string path = PathOf(id);
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return ErrnoStatus(errno, fmt::format("open {}", path));
  data.resize(static_cast<size_t>(std::min<uint64_t>(max_bytes, committed - offset)));
  size_t filled = 0;
  while (filled < data.size()) {
    const ssize_t n = ::pread(fd.get(), data.data() + filled, data.size() - filled,
                              static_cast<off_t>(offset + filled));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, fmt::format("read {}", path));
    if (n == 0) {
      return absl::DataLossError(
          fmt::format("{} is shorter than the {} bytes that were stored in it", path, committed));
    }
    filled += static_cast<size_t>(n);
  }
  return data;
}

absl::StatusOr<uint64_t> LogStore::TailStart(const StoredLogId& id, uint64_t tail_bytes) const {
  return FindTailStart(CommittedSize(id), tail_bytes, [&](uint64_t offset, size_t max_bytes) {
    return Read(id, offset, max_bytes);
  });
}

void LogStore::AddListener(const AttemptId& attempt, std::weak_ptr<LogListener> listener) {
  MutexLock lock(mutex_);
  listeners_[attempt].push_back(std::move(listener));
}

void LogStore::RemoveListener(const AttemptId& attempt, const LogListener* listener) {
  MutexLock lock(mutex_);
  const auto found = listeners_.find(attempt);
  if (found == listeners_.end()) return;
  std::erase_if(found->second, [&](const std::weak_ptr<LogListener>& weak) {
    const std::shared_ptr<LogListener> alive = weak.lock();
    return !alive || alive.get() == listener;
  });
  if (found->second.empty()) listeners_.erase(found);
}

void LogStore::SetGlobalListener(std::weak_ptr<LogListener> listener) {
  MutexLock lock(mutex_);
  global_listener_ = std::move(listener);
}

}  // namespace muster
