// The record of what was done, by whom and by whose order: a file of JSON lines that only grows.
// Each line begins with the SHA-256 of the line before it, so that a line that is changed, left out
// or put in later is found; only the last lines can be taken away unseen, against which the digest
// of the last line can be kept elsewhere. An event is on the disk when Append returns.
//
//   {"prev":"<64 hexadecimal digits>","time":"2026-03-01T12:00:00Z","event":"join",...}
//
// A file that is full becomes FILE.1, the one that was FILE.1 becomes FILE.2, and so on; the oldest
// goes. The first line of a file has the digest of the last line of the file before it.
//
// Thread-safe, and several processes may write one file. Blocks on the disk.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/io/unique_fd.h"

namespace muster {

// Empty fields are left out; each is cut to kMaxAuditFieldBytes. Never a secret.
struct AuditEvent {
  // What was tried: "join", "token-create", "revoke", a method.
  std::string event;
  // "allowed" or "refused".
  std::string decision;
  // Identity of who tried it.
  std::string who;
  // Serial number of its certificate.
  std::string serial;
  // What it was tried on.
  std::string object;
  // Address that it came from.
  std::string source;
  // Why it was refused, or what else is worth knowing.
  std::string detail;
  // Further fields with their names, at most kMaxAuditMore, each cut to kMaxAuditMoreBytes.
  std::vector<std::pair<std::string, std::string>> more = {};
};
inline constexpr size_t kMaxAuditFieldBytes = 512;
inline constexpr size_t kMaxAuditMore = 4;
inline constexpr size_t kMaxAuditMoreBytes = 4096;

struct AuditLimits {
  // Size from which on a file takes no further line.
  int64_t file_bytes = int64_t{64} << 20;
  // Full files that are kept besides the one that is written; at least 1.
  int kept_files = 7;
};

class AuditLog {
 public:
  // Makes the file with mode 0600 when it is missing.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const std::string& path,
                                                        AuditLimits limits = {});

  // A last line that a crash has cut short is removed first, and an event tells so. After an error
  // the file is as before, and what would have been told must not be done.
  absl::Status Append(const AuditEvent& event, WallTime now);

 private:
  AuditLog(std::string path, AuditLimits limits, UniqueFd fd)
      : path_(std::move(path)), limits_(limits), fd_(std::move(fd)) {}
  // Makes the file ready for one more line. False: it is not the log's newest any more.
  absl::StatusOr<bool> Prepare(WallTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status AppendLocked(const AuditEvent& event, WallTime now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Reopen() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // False: it could not be moved away, and goes on to grow.
  bool Rotate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CatchUp(int64_t size, WallTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Write(const AuditEvent& event, WallTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  const AuditLimits limits_;
  Mutex mutex_;
  UniqueFd fd_ ABSL_GUARDED_BY(mutex_);
  // Of the file when `previous_` was its last digest; -1: not known.
  int64_t size_ ABSL_GUARDED_BY(mutex_) = -1;
  std::string previous_ ABSL_GUARDED_BY(mutex_);
};

struct AuditReport {
  // Of all files that are kept.
  int64_t lines = 0;
  int files = 0;
  // Lines that tell that events before them could not be written; see audit_trail.h.
  int64_t lost = 0;
  // Digest of the last line, hexadecimal; zeros when there is none.
  std::string last_digest;
  // Bytes of a last line that a crash has cut short; 0: none.
  int64_t torn_bytes = 0;
};

inline constexpr char kAuditLostEvent[] = "audit-lost";

// Reads all files of a log, the oldest first. DATA_LOSS: "FILE:LINE: ..." for the first line that
// does not fit the one before it. The very first line must be one without a line before it, unless
// as many files are kept as can be. NOT_FOUND: there is none. May run while others write.
absl::StatusOr<AuditReport> VerifyAudit(const std::string& path, AuditLimits limits = {});

}  // namespace muster
