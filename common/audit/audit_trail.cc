#include "common/audit/audit_trail.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <utility>

#include "common/base/annotate.h"
#include "common/log/log.h"

namespace muster {
namespace {

// A disk that hangs must not take the memory of the program.
constexpr size_t kMaxWaiting = 10'000;

}  // namespace

AuditTrail::AuditTrail(std::string path, const Clock& clock, AuditLimits limits)
    : path_(std::move(path)), clock_(clock), limits_(limits) {}

AuditTrail::~AuditTrail() { worker_.Stop(); }

void AuditTrail::Record(AuditEvent event) {
  {
    MutexLock lock(mutex_);
    if (waiting_ < kMaxWaiting) {
      ++waiting_;
      worker_.Post(
          [this, event = std::move(event), time = clock_.WallNow()] { Write(event, time); });
      return;
    }
  }
  Lose("the disk does not keep up");
}

uint64_t AuditTrail::lost() const {
  MutexLock lock(mutex_);
  return lost_;
}

void AuditTrail::Lose(std::string_view why) {
  uint64_t lost = 0;
  {
    MutexLock lock(mutex_);
    lost = ++lost_;
    lost_why_ = why;
  }
  // 1, 2, 4, 8, ...: it may go on for long.
  if ((lost & (lost - 1)) == 0) {
    spdlog::error("the audit log cannot be written path={} events_lost={} error={}",
                  LogQuoted(path_), lost, LogQuoted(why));
  }
}

void AuditTrail::Write(const AuditEvent& event, WallTime time) {
  uint64_t lost = 0;
  std::string why;
  {
    MutexLock lock(mutex_);
    --waiting_;
    lost = lost_;
    why = lost_why_;
  }
  absl::Status written = absl::OkStatus();
  if (lost > 0) {
    written = TryWrite(
        {.event = kAuditLostEvent,
         .detail = fmt::format("{} events before this one could not be written: {}", lost, why)},
        time);
    if (written.ok()) {
      spdlog::warn("the audit log can be written again path={} events_lost={}", LogQuoted(path_),
                   lost);
      MutexLock lock(mutex_);
      lost_ -= lost;
    }
  }
  if (written.ok()) written = TryWrite(event, time);
  if (!written.ok()) Lose(MessageOf(written));
}

absl::Status AuditTrail::TryWrite(const AuditEvent& event, WallTime time) {
  if (log_ == nullptr) {
    absl::StatusOr<std::unique_ptr<AuditLog>> log = AuditLog::Open(path_, limits_);
    if (!log.ok()) return log.status();
    log_ = *std::move(log);
  }
  return log_->Append(event, time);
}

}  // namespace muster
