#include "common/audit/audit_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "common/base/annotate.h"
#include "common/base/utc.h"
#include "common/crypto/digest.h"
#include "common/crypto/encoding.h"

namespace muster {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kPrefix = "{\"prev\":\"";
constexpr size_t kDigestChars = 64;
// Above what the fields of an event can become, each byte escaped as six.
constexpr int64_t kMaxLineBytes = int64_t{128} << 10;
// A file that is moved away each time that it is looked at is no log.
constexpr int kMaxTries = 100;

std::string NoDigest() { return std::string(kDigestChars, '0'); }

std::string LineOf(const AuditEvent& event, const std::string& previous, WallTime now) {
  Json json;
  json["time"] = FormatUtc(now);
  const std::pair<const char*, const std::string*> fields[] = {
      {"event", &event.event},   {"decision", &event.decision}, {"who", &event.who},
      {"serial", &event.serial}, {"object", &event.object},     {"source", &event.source},
      {"detail", &event.detail}};
  for (const auto& [name, value] : fields) {
    if (!value->empty()) json[name] = value->substr(0, kMaxAuditFieldBytes);
  }
  for (size_t i = 0; i < event.more.size() && i < kMaxAuditMore; ++i) {
    json[event.more[i].first] = event.more[i].second.substr(0, kMaxAuditMoreBytes);
  }
  // Bytes that are not UTF-8 are replaced, everything outside ASCII is escaped.
  const std::string body = json.dump(-1, ' ', true, Json::error_handler_t::replace);
  return fmt::format("{}{}\",{}\n", kPrefix, previous, std::string_view(body).substr(1));
}

std::string NumberedPath(const std::string& path, int number) {
  return number == 0 ? path : fmt::format("{}.{}", path, number);
}

absl::StatusOr<UniqueFd> OpenFile(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return ErrnoStatus(errno, path);
  return fd;
}

// Whether the file is still the one that is called so.
bool IsAt(const std::string& path, int fd) {
  struct stat info = {};
  struct stat there = {};
  return ::fstat(fd, &info) == 0 && ::lstat(path.c_str(), &there) == 0 &&
         there.st_ino == info.st_ino && there.st_dev == info.st_dev;
}

// The last `most` bytes of a file of `size` bytes.
absl::StatusOr<std::string> TailOf(int fd, int64_t size, int64_t most) {
  const int64_t begin = std::max<int64_t>(0, size - most);
  std::string tail(static_cast<size_t>(size - begin), '\0');
  size_t have = 0;
  while (have < tail.size()) {
    const ssize_t count =
        ::pread(fd, tail.data() + have, tail.size() - have, begin + static_cast<int64_t>(have));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return ErrnoStatus(count < 0 ? errno : EIO, "read");
    have += static_cast<size_t>(count);
  }
  return tail;
}

// Digest of the last whole line of `tail`, which ends with a line end or is empty.
std::string DigestOfLast(std::string tail, std::string none) {
  if (tail.empty()) return none;
  tail.pop_back();
  const size_t before = tail.rfind('\n');
  return HexEncode(Sha256(tail.substr(before == std::string::npos ? 0 : before + 1)));
}

// Digest of the last line of the file that was full before.
absl::StatusOr<std::string> DigestBefore(const std::string& path) {
  const UniqueFd fd(::open(NumberedPath(path, 1).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd && errno == ENOENT) return NoDigest();
  struct stat info = {};
  if (!fd || ::fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, NumberedPath(path, 1));
  absl::StatusOr<std::string> tail = TailOf(fd.get(), info.st_size, 2 * kMaxLineBytes);
  if (!tail.ok()) return tail.status();
  if (!tail->empty() && tail->back() != '\n') {
    return absl::DataLossError(fmt::format("{} ends within a line", NumberedPath(path, 1)));
  }
  return DigestOfLast(*std::move(tail), NoDigest());
}

// Holds the lock of the file against other processes.
class FileLock {
 public:
  explicit FileLock(int fd) : fd_(fd) {
    int result = 0;
    do result = ::flock(fd, LOCK_EX);
    while (result != 0 && errno == EINTR);
    error_ = result == 0 ? 0 : errno;
  }
  ~FileLock() {
    if (error_ == 0) (void)::flock(fd_, LOCK_UN);
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  int error() const { return error_; }

 private:
  int fd_;
  int error_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(const std::string& path,
                                                         AuditLimits limits) {
  absl::StatusOr<UniqueFd> fd = OpenFile(path);
  if (!fd.ok()) return fd.status();
  return std::unique_ptr<AuditLog>(new AuditLog(path, limits, *std::move(fd)));
}

absl::Status AuditLog::Append(const AuditEvent& event, WallTime now) {
  MutexLock lock(mutex_);
  return Annotate(AppendLocked(event, now), path_);
}

absl::Status AuditLog::AppendLocked(const AuditEvent& event, WallTime now) {
  for (int i = 0; i < kMaxTries; ++i) {
    {
      const FileLock file_lock(fd_.get());
      if (file_lock.error() != 0) return ErrnoStatus(file_lock.error(), "lock");
      const absl::StatusOr<bool> ready = Prepare(now);
      if (!ready.ok()) return ready.status();
      if (*ready) return Write(event, now);
    }
    if (absl::Status opened = Reopen(); !opened.ok()) return opened;
  }
  return absl::UnavailableError("it is replaced all the time");
}

absl::StatusOr<bool> AuditLog::Prepare(WallTime now) {
  struct stat info = {};
  if (::fstat(fd_.get(), &info) != 0) return ErrnoStatus(errno, "stat");
  const bool in_place = IsAt(path_, fd_.get());
  if (in_place && info.st_size != size_) {
    if (absl::Status known = CatchUp(info.st_size, now); !known.ok()) return known;
  }
  // Else another process has moved it away, or this one just did.
  return in_place && (size_ < limits_.file_bytes || !Rotate());
}

absl::Status AuditLog::Reopen() {
  size_ = -1;
  absl::StatusOr<UniqueFd> fd = OpenFile(path_);
  if (!fd.ok()) return fd.status();
  fd_ = *std::move(fd);
  return absl::OkStatus();
}

bool AuditLog::Rotate() {
  for (int number = limits_.kept_files; number > 0; --number) {
    const std::string from = NumberedPath(path_, number - 1);
    const int result = ::rename(from.c_str(), NumberedPath(path_, number).c_str());
    if (result != 0 && (errno != ENOENT || number == 1)) return false;
  }
  // The next line would else be the first one that is known to be there.
  const std::string folder = path_.substr(0, path_.rfind('/') + 1);
  const UniqueFd directory(
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory) (void)::fsync(directory.get());
  return true;
}

absl::Status AuditLog::CatchUp(int64_t size, WallTime now) {
  size_ = -1;
  absl::StatusOr<std::string> read = TailOf(fd_.get(), size, 2 * kMaxLineBytes);
  if (!read.ok()) return read.status();
  std::string tail = *std::move(read);
  const size_t end = tail.rfind('\n');
  const std::string torn = tail.substr(end == std::string::npos ? 0 : end + 1);
  if (static_cast<int64_t>(torn.size()) > kMaxLineBytes) {
    return absl::DataLossError("its last line is too long to be one of an audit log");
  }
  tail.resize(tail.size() - torn.size());
  absl::StatusOr<std::string> before = tail.empty() ? DigestBefore(path_) : NoDigest();
  if (!before.ok()) return before.status();
  previous_ = DigestOfLast(std::move(tail), *std::move(before));
  if (torn.empty()) {
    size_ = size;
    return absl::OkStatus();
  }
  // It was never acknowledged: what it would have told was not done.
  const int64_t whole = size - static_cast<int64_t>(torn.size());
  if (::ftruncate(fd_.get(), whole) != 0) return ErrnoStatus(errno, "truncate");
  size_ = whole;
  return Write({.event = "audit-recovered",
                .detail = fmt::format("removed {} bytes of a line that a crash had cut short, "
                                      "SHA-256 {}",
                                      torn.size(), HexEncode(Sha256(torn)))},
               now);
}

absl::Status AuditLog::Write(const AuditEvent& event, WallTime now) {
  const std::string line = LineOf(event, previous_, now);
  std::string_view rest = line;
  int error = 0;
  while (!rest.empty() && error == 0) {
    const ssize_t count = ::write(fd_.get(), rest.data(), rest.size());
    if (count >= 0) {
      rest.remove_prefix(static_cast<size_t>(count));
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  if (error == 0 && ::fdatasync(fd_.get()) != 0) error = errno;
  if (error != 0) {
    // If this fails too, the next one removes what is left.
    (void)::ftruncate(fd_.get(), size_);
    size_ = -1;
    return ErrnoStatus(error, "write");
  }
  size_ += static_cast<int64_t>(line.size());
  previous_ = HexEncode(Sha256(std::string_view(line).substr(0, line.size() - 1)));
  return absl::OkStatus();
}

namespace {

struct OpenedFile {
  int number;
  std::string path;
  std::ifstream stream;
};

// All files of a log, the oldest first. While they are opened none is moved away; lines that are
// written later are read, too.
absl::StatusOr<std::vector<OpenedFile>> OpenAll(const std::string& path, int kept_files) {
  for (int i = 0; i < kMaxTries; ++i) {
    const UniqueFd newest(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    std::optional<FileLock> lock;
    if (newest) {
      lock.emplace(newest.get());
      if (lock->error() != 0) return ErrnoStatus(lock->error(), path);
      if (!IsAt(path, newest.get())) continue;
    }
    std::vector<OpenedFile> files;
    for (int number = kept_files; number >= 0; --number) {
      std::string one = NumberedPath(path, number);
      if (::access(one.c_str(), F_OK) != 0 && errno == ENOENT) continue;
      std::ifstream stream(one, std::ios::binary);
      if (!stream) return absl::UnavailableError(fmt::format("{}: it cannot be opened", one));
      files.push_back({number, std::move(one), std::move(stream)});
    }
    return files;
  }
  return absl::UnavailableError(fmt::format("{}: it is replaced all the time", path));
}

// Adds one file to the report. `any_start`: nothing is known of the line before its first one.
absl::Status VerifyFile(OpenedFile& opened, bool any_start, AuditReport& report) {
  const std::string& path = opened.path;
  std::ifstream& file = opened.stream;
  ++report.files;
  int64_t number = 0;
  std::string line;
  while (std::getline(file, line)) {
    const auto wrong = [&](std::string_view what) {
      return absl::DataLossError(fmt::format("{}:{}: {}", path, number, what));
    };
    // Without a line end: the write was cut short.
    if (file.eof()) {
      report.torn_bytes = static_cast<int64_t>(line.size());
      break;
    }
    ++number;
    ++report.lines;
    if (!line.starts_with(kPrefix) || line.size() < kPrefix.size() + kDigestChars) {
      return wrong("this is no line of an audit log");
    }
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) return wrong("this is no line of an audit log");
    if (json.value("event", Json()) == kAuditLostEvent) ++report.lost;
    const bool first = number == 1 && any_start;
    if (!first && line.compare(kPrefix.size(), kDigestChars, report.last_digest) != 0) {
      return wrong(report.lines == 1
                       ? "lines before it are missing, or it was changed"
                       : "it does not fit the line before it: one of the two was changed, or lines "
                         "between them are missing or were put in");
    }
    report.last_digest = HexEncode(Sha256(line));
  }
  if (file.bad()) return absl::UnavailableError(fmt::format("{}: it cannot be read", path));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<AuditReport> VerifyAudit(const std::string& path, AuditLimits limits) {
  AuditReport report{.last_digest = NoDigest()};
  absl::StatusOr<std::vector<OpenedFile>> files = OpenAll(path, limits.kept_files);
  if (!files.ok()) return files.status();
  for (OpenedFile& one : *files) {
    if (report.torn_bytes > 0) {
      return absl::DataLossError(
          fmt::format("{}: the file before it ends within a line", one.path));
    }
    const bool any_start = report.files == 0 && one.number == limits.kept_files && one.number > 0;
    if (absl::Status good = VerifyFile(one, any_start, report); !good.ok()) return good;
  }
  if (report.files == 0) return absl::NotFoundError(fmt::format("{}: there is none", path));
  return report;
}

}  // namespace muster
