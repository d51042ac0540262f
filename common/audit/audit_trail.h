// Writes events to an audit log beside the work that they tell of: whoever does the work never
// waits for the disk. What could not be written is counted, told in the program's own log, and put
// on record (`audit-lost`) as soon as the log can be written again. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/audit/audit_log.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/io/worker_thread.h"

namespace muster {

class AuditTrail {
 public:
  // The log at `path` is made with the first event. The clock outlives it.
  AuditTrail(std::string path, const Clock& clock, AuditLimits limits = {});
  // Waits until what was recorded is written, or has failed to be.
  ~AuditTrail();
  AuditTrail(const AuditTrail&) = delete;
  AuditTrail& operator=(const AuditTrail&) = delete;

  // Never blocks. The time of the event is now. With too many that wait for the disk it is lost.
  void Record(AuditEvent event);
  // Events that were not written and are not on record as lost yet.
  uint64_t lost() const;

 private:
  void Write(const AuditEvent& event, WallTime time);
  absl::Status TryWrite(const AuditEvent& event, WallTime time);
  void Lose(std::string_view why);

  const std::string path_;
  const Clock& clock_;
  const AuditLimits limits_;
  mutable Mutex mutex_;
  size_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t lost_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string lost_why_ ABSL_GUARDED_BY(mutex_);
  // On the worker only.
  std::unique_ptr<AuditLog> log_;
  // Last: its tasks use everything above.
  WorkerThread worker_{"audit"};
};

}  // namespace muster
