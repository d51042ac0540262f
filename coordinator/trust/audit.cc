#include "coordinator/trust/audit.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
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
constexpr int64_t kMaxLineBytes = int64_t{64} << 10;

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
  // Bytes that are not UTF-8 are replaced, everything outside ASCII is escaped.
  const std::string body = json.dump(-1, ' ', true, Json::error_handler_t::replace);
  return fmt::format("{}{}\",{}\n", kPrefix, previous, std::string_view(body).substr(1));
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

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return ErrnoStatus(errno, path);
  return std::unique_ptr<AuditLog>(new AuditLog(path, std::move(fd)));
}

absl::Status AuditLog::Append(const AuditEvent& event, WallTime now) {
  MutexLock lock(mutex_);
  return Annotate(AppendLocked(event, now), path_);
}

absl::Status AuditLog::AppendLocked(const AuditEvent& event, WallTime now) {
  const FileLock file_lock(fd_.get());
  if (file_lock.error() != 0) return ErrnoStatus(file_lock.error(), "lock");
  struct stat info = {};
  if (::fstat(fd_.get(), &info) != 0) return ErrnoStatus(errno, "stat");
  if (info.st_size != size_) {
    if (absl::Status known = CatchUp(info.st_size, now); !known.ok()) return known;
  }
  return Write(event, now);
}

absl::Status AuditLog::CatchUp(int64_t size, WallTime now) {
  size_ = -1;
  const int64_t begin = std::max<int64_t>(0, size - 2 * kMaxLineBytes);
  std::string tail(static_cast<size_t>(size - begin), '\0');
  size_t have = 0;
  while (have < tail.size()) {
    const ssize_t count = ::pread(fd_.get(), tail.data() + have, tail.size() - have,
                                  begin + static_cast<int64_t>(have));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return ErrnoStatus(count < 0 ? errno : EIO, "read");
    have += static_cast<size_t>(count);
  }
  const size_t end = tail.rfind('\n');
  const std::string torn = tail.substr(end == std::string::npos ? 0 : end + 1);
  if (static_cast<int64_t>(torn.size()) > kMaxLineBytes) {
    return absl::DataLossError("its last line is too long to be one of an audit log");
  }
  tail.resize(tail.size() - torn.size());
  previous_ = NoDigest();
  if (!tail.empty()) {
    tail.pop_back();
    const size_t before = tail.rfind('\n');
    previous_ = HexEncode(Sha256(tail.substr(before == std::string::npos ? 0 : before + 1)));
  }
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

absl::StatusOr<AuditReport> VerifyAudit(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(fmt::format("{}: it cannot be opened", path));
  AuditReport report{.last_digest = NoDigest()};
  std::string line;
  while (std::getline(file, line)) {
    // Without a line end: the write was cut short.
    if (file.eof()) {
      report.torn_bytes = static_cast<int64_t>(line.size());
      break;
    }
    ++report.lines;
    const auto wrong = [&](std::string_view what) {
      return absl::DataLossError(fmt::format("{}:{}: {}", path, report.lines, what));
    };
    if (!line.starts_with(kPrefix) || line.size() < kPrefix.size() + kDigestChars ||
        !Json::accept(line)) {
      return wrong("this is no line of an audit log");
    }
    if (line.compare(kPrefix.size(), kDigestChars, report.last_digest) != 0) {
      return wrong(report.lines == 1
                       ? "lines before it are missing, or it was changed"
                       : "it does not fit the line before it: one of the two was changed, or lines "
                         "between them are missing or were put in");
    }
    report.last_digest = HexEncode(Sha256(line));
  }
  if (file.bad()) return absl::UnavailableError(fmt::format("{}: it cannot be read", path));
  return report;
}

}  // namespace muster
