// Keeps the certificates of the coordinator itself fresh while it runs, and takes a change of the
// CA from step to step as members follow. The one writer of the trust directory. Thread-safe;
// blocks on the disk.
#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <string>
#include <vector>

#include "common/audit/audit_log.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "coordinator/trust/live_trust.h"
#include "coordinator/trust/trust_office.h"
#include "coordinator/trust/trust_store.h"

namespace muster {

class TrustKeeper {
 public:
  // All outlive it.
  TrustKeeper(std::string directory, LiveTrust& trust, TrustStore& store, AuditLog& audit,
              const Clock& clock)
      : directory_(std::move(directory)),
        trust_(trust),
        store_(store),
        audit_(audit),
        clock_(clock) {}

  // Does what is due: at most one step of a change of the CA.
  absl::Status Step();
  // How often: the certificates' life says.
  std::chrono::milliseconds Interval() const;

  // Begins a change of the CA. FAILED_PRECONDITION: one is under way; names whom it waits for.
  absl::Status BeginRotation(const Actor& actor);
  // Whom a change of the CA waits for now.
  absl::StatusOr<std::vector<Member>> Awaited();

 private:
  absl::Status Advance(WallTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Tell(std::string_view decision, std::string detail, const Actor& actor);
  absl::Status Reload(WallTime now);

  const std::string directory_;
  LiveTrust& trust_;
  TrustStore& store_;
  AuditLog& audit_;
  const Clock& clock_;
  Mutex mutex_;
};

// "agent node-1 (its certificate ends 2026-03-01T12:00:00Z), ...": for people.
std::string NamesOf(const std::vector<Member>& members);

}  // namespace muster
