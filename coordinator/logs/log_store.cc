#include "coordinator/logs/log_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
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

// Fewer zeros are read like anything else.
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

// First byte from `at` on, before `end`, that has data on the disk; `end` when there is none. `at`
// itself where the file system cannot tell.
uint64_t NextData(int fd, uint64_t at, uint64_t end) {
  const off_t data = ::lseek(fd, static_cast<off_t>(at), SEEK_DATA);
  if (data < 0) return errno == ENXIO ? end : at;
  return std::min(static_cast<uint64_t>(data), end);
}

// First byte from `at`, which has data, on that has none; `end` when there is none before.
uint64_t NextHole(int fd, uint64_t at, uint64_t end) {
  const off_t hole = ::lseek(fd, static_cast<off_t>(at), SEEK_HOLE);
  return hole < 0 ? end : std::min(static_cast<uint64_t>(hole), end);
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
  searcher_.Stop();
}

std::string LogStore::PathOf(const StoredLogId& file) const {
  if (!IsJobId(file.attempt.job.value())) return "";
  return fmt::format("{}/{}/{}/rank-{:05}.log", options_.directory, file.attempt.job.value(),
                     file.attempt.attempt, file.rank.value);
}

void LogStore::PostRead(WorkerThread::Task task) { reader_.Post(std::move(task)); }

void LogStore::PostSearch(WorkerThread::Task task) { searcher_.Post(std::move(task)); }

void LogStore::Append(const StoredLogId& file, uint64_t offset, LogPiece piece, AppendDone done) {
  {
    MutexLock lock(mutex_);
    pending_.push_back(Write{file, offset, std::move(piece), std::move(done)});
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
    write.piece = {};
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
  const std::string_view data = write.piece.data;
  const uint64_t stored = file.committed - write.offset;
  if (stored >= write.piece.size()) return file.committed;
  int error = 0;
  if (stored < data.size()) error = WriteBytes(file, data.substr(stored));
  if (error == 0) error = WriteZeros(file, write.offset + write.piece.size());
  if (error != 0) {
    absl::Status failed = Exhausted(error, PathOf(write.file));
    NoteTrouble(write.file, failed);
    return failed;
  }
  NoteGood(write.file);
  return file.committed;
}

// Both return an errno.
int LogStore::WriteBytes(File& file, std::string_view data) {
  while (!data.empty()) {
    const ssize_t n =
        ::pwrite(file.fd.get(), data.data(), data.size(), static_cast<off_t>(file.committed));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : ENOSPC;
    data.remove_prefix(static_cast<size_t>(n));
    file.committed += static_cast<uint64_t>(n);
  }
  return 0;
}

int LogStore::WriteZeros(File& file, uint64_t end) {
  if (file.committed >= end) return 0;
  // What a failed write left behind the committed bytes is no zeros.
  if (::ftruncate(file.fd.get(), static_cast<off_t>(file.committed)) != 0) return errno;
  if (::ftruncate(file.fd.get(), static_cast<off_t>(end)) != 0) return errno;
  file.committed = end;
  return 0;
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

absl::StatusOr<UniqueFd> LogStore::OpenForRead(const StoredLogId& id) const {
  const std::string path = PathOf(id);
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return ErrnoStatus(errno, fmt::format("open {}", path));
  return fd;
}

absl::Status LogStore::ReadInto(const StoredLogId& id, int fd, uint64_t offset,
                                std::string& data) const {
  size_t filled = 0;
  while (filled < data.size()) {
    const ssize_t n = ::pread(fd, data.data() + filled, data.size() - filled,
                              static_cast<off_t>(offset + filled));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, fmt::format("read {}", PathOf(id)));
    if (n == 0) {
      return absl::DataLossError(
          fmt::format("{} is shorter than the {} bytes that were stored in it", PathOf(id),
                      offset + data.size()));
    }
    filled += static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> LogStore::Read(const StoredLogId& id, uint64_t offset,
                                           size_t max_bytes) const {
  const uint64_t committed = CommittedSize(id);
  std::string data;
  if (offset >= committed) return data;
  const absl::StatusOr<UniqueFd> fd = OpenForRead(id);
  if (!fd.ok()) return fd.status();
  data.resize(static_cast<size_t>(std::min<uint64_t>(max_bytes, committed - offset)));
  const absl::Status status = ReadInto(id, fd->get(), offset, data);
  if (!status.ok()) return status;
  return data;
}

absl::StatusOr<LogPiece> LogStore::ReadSparse(const StoredLogId& id, uint64_t offset, uint64_t end,
                                              size_t max_bytes) const {
  end = std::min(end, CommittedSize(id));
  LogPiece piece;
  if (offset >= end) return piece;
  const absl::StatusOr<UniqueFd> opened = OpenForRead(id);
  if (!opened.ok()) return opened.status();
  const int fd = opened->get();
  struct stat info;
  if (::fstat(fd, &info) != 0) return ErrnoStatus(errno, fmt::format("look at {}", PathOf(id)));
  if (static_cast<uint64_t>(info.st_size) < end) {
    return absl::DataLossError(
        fmt::format("{} is shorter than the {} bytes that were stored in it", PathOf(id), end));
  }
  uint64_t data_begin = NextData(fd, offset, end);
  if (data_begin - offset >= kLeastZeros) {
    piece.zeros = data_begin - offset;
    return piece;
  }
  const uint64_t most = std::min<uint64_t>(end, offset + max_bytes);
  uint64_t data_end = NextHole(fd, std::min(data_begin, most), most);
  if (data_end == offset) data_end = most;  // it cannot be: the file system contradicts itself
  piece.data.resize(static_cast<size_t>(data_end - offset));
  const absl::Status status = ReadInto(id, fd, offset, piece.data);
  if (!status.ok()) return status;
  if (data_end < most) {
    data_begin = NextData(fd, data_end, end);
    if (data_begin - data_end >= kLeastZeros) piece.zeros = data_begin - data_end;
  }
  return piece;
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
