// The record of what concerns trust: a file of JSON lines that only grows. Each line begins with
// the SHA-256 of the line before it, so that a line that is changed, left out or put in later is
// found; only the last lines can be taken away unseen, against which the digest of the last line
// can be kept elsewhere. An event is on the disk when Append returns.
//
//   {"prev":"<64 hexadecimal digits>","time":"2026-03-01T12:00:00Z","event":"join",...}
//
// Thread-safe, and several processes may write one file. Blocks on the disk.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

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
};
inline constexpr size_t kMaxAuditFieldBytes = 512;

class AuditLog {
 public:
  // Makes the file with mode 0600 when it is missing.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const std::string& path);

  // A last line that a crash has cut short is removed first, and an event tells so. After an error
  // the file is as before, and what would have been told must not be done.
  absl::Status Append(const AuditEvent& event, WallTime now);

 private:
  AuditLog(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  absl::Status AppendLocked(const AuditEvent& event, WallTime now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CatchUp(int64_t size, WallTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Write(const AuditEvent& event, WallTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  Mutex mutex_;
  UniqueFd fd_ ABSL_GUARDED_BY(mutex_);
  // Of the file when `previous_` was its last digest; -1: not known.
  int64_t size_ ABSL_GUARDED_BY(mutex_) = -1;
  std::string previous_ ABSL_GUARDED_BY(mutex_);
};

struct AuditReport {
  int64_t lines = 0;
  // Digest of the last line, hexadecimal; zeros when there is none.
  std::string last_digest;
  // Bytes of a last line that a crash has cut short; 0: none.
  int64_t torn_bytes = 0;
};

// DATA_LOSS: "FILE:LINE: ..." for the first line that does not fit the one before it.
absl::StatusOr<AuditReport> VerifyAudit(const std::string& path);

}  // namespace muster
