#include "common/doctor/audit_check.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "common/audit/audit_log.h"
#include "common/base/annotate.h"

namespace muster {

Finding CheckAudit(const std::string& path) {
  const absl::StatusOr<AuditReport> report = VerifyAudit(path);
  if (absl::IsNotFound(report.status())) {
    return Good("audit", "nothing was written to it yet");
  }
  if (!report.ok()) {
    return Failed("audit", report.status(),
                  "somebody or something has changed it: keep a copy, find out who");
  }
  if (::access(path.c_str(), W_OK) != 0 && errno != ENOENT) {
    return Failed("audit", ErrnoStatus(errno, path));
  }
  std::string text = fmt::format("{} lines, each fits the one before it", report->lines);
  if (report->files > 1) text += fmt::format(", in {} files", report->files);
  if (report->lost > 0) {
    return Doubtful(
        "audit",
        fmt::format("{}; {} of them tell that events could not be written", text, report->lost),
        fmt::format("grep audit-lost {}*: each says how many, and why", path));
  }
  if (report->torn_bytes == 0) return Good("audit", text);
  return Doubtful(
      "audit",
      fmt::format("{}; {} bytes of a last line that a crash cut short", text, report->torn_bytes),
      "nothing: the next line removes it");
}

}  // namespace muster
